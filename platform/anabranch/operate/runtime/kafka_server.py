"""The embedded broker as a service: Apache Kafka from its published JARs, one node as broker and controller (KRaft)."""

from __future__ import annotations

import base64
import importlib.util
import os
import shutil
import socket
import subprocess
import uuid
from pathlib import Path

from anabranch.core.engine.java_options import COMPILER, archive_options
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.auth import PROVIDERS, jaas, password_reference
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime.environment import part_environment

BROKER_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # Topics are created from their declarations; one created by a typing error would have other settings.
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # By itself 128 MB from its start on. Compaction reads a part of a log again for each 1.2 million keys in it.
    "log.cleaner.dedupe.buffer.size": f"{32 << 20}",
    # By itself the controller writes an empty record twice a second, a fifth of what an idle broker costs.
    "metadata.max.idle.interval.ms": "10000",
}
"""Also in docker-compose.yml's broker. Listeners and folders are added below."""

# Added before the broker's own JARs: Spark's resolver omits scala-library, and the broker needs a log4j binding.
FROM_SPARK = ("scala-library", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "slf4j-api")

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""


def java() -> str:
    """The Java executable: JAVA_HOME's, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else (shutil.which("java") or "java")


def broker_archive(settings: Settings) -> Path:
    """The JVM's class data archive for the broker; ``operate.setup`` writes it. With it a start takes half the CPU
    time."""
    return settings.jars / "broker.jsa"


def kafka_home(settings: Settings) -> Path:
    return settings.home / "kafka"


def unpacked(settings: Settings) -> Path:
    """Where the broker unpacks native libraries. A killed broker leaves them; the next start deletes them."""
    return kafka_home(settings) / "unpacked"


def kafka_part(settings: Settings) -> Service:
    """The service. Its data survives a kill: Kafka recovers its segments at the next start."""
    home = kafka_home(settings)
    # The broker's own scripts reserve 1 GB; half of it is enough for one node on loopback. Out of memory, a broker
    # would live on without the thread that was denied it: it ends, and is started again.
    memory = ["-Xms96m", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    options = [*memory, *COMPILER.split(), "-Djava.awt.headless=true"]
    return Service(
        name="kafka",
        command=(*_command(settings, options), "kafka.Kafka", str(home / "server.properties")),
        cwd=settings.project,
        log=settings.logs / "kafka.log",
        env=part_environment(settings, "kafka"),
        prepare=lambda: prepare(settings),
        ready=lambda _: _ready(settings),
        ports={
            "ANABRANCH_KAFKA_PORT": settings.kafka_port,
            "ANABRANCH_KAFKA_CONTROLLER_PORT": settings.kafka_controller_port,
        },
        host=settings.kafka_host,
        grace=30.0,
    )


def properties(settings: Settings) -> dict[str, str]:
    """The complete configuration of the embedded broker. It has no secret, only where the broker reads it from."""
    broker, controller = f"{settings.kafka_host}:{settings.kafka_port}", f"127.0.0.1:{settings.kafka_controller_port}"
    protocol = "SASL_SSL" if settings.kafka_certificate else "PLAINTEXT"
    return (
        BROKER_SETTINGS
        | _login(settings)
        | {
            "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": protocol,
            "listeners": f"{protocol}://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"{protocol}://{broker}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(kafka_home(settings) / "data"),
        }
    )


def _login(settings: Settings) -> dict[str, str]:
    """One user, by PLAIN over TLS; create more users, by SCRAM, with Kafka's own tools. Empty without a certificate."""
    if not settings.kafka_certificate:
        return {}
    known = f' user_{settings.kafka_user}="{password_reference(settings)}"'
    listener = "listener.name.sasl_ssl"
    return PROVIDERS | {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": jaas(settings, "PLAIN", known),
        f"{listener}.scram-sha-512.sasl.jaas.config": jaas(settings, "SCRAM-SHA-512"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(settings.kafka_certificate),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(settings.kafka_ca),
    }


def prepare(settings: Settings) -> None:
    """Writes the configuration, and formats the storage if that was not done or not completed."""
    home = kafka_home(settings)
    shutil.rmtree(unpacked(settings), ignore_errors=True)
    unpacked(settings).mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOG4J)
    lines = "".join(f"{name}={value}\n" for name, value in properties(settings).items())
    (home / "server.properties").write_text(lines)
    if (home / "data" / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    command = [*_command(settings, ["-Xmx128m", "-XX:TieredStopAtLevel=1"]), "kafka.tools.StorageTool", "format"]
    command += ["-t", cluster, "-c", str(home / "server.properties"), "--ignore-formatted"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        raise BrokenState(
            "KAFKA_FORMAT",
            f"the broker's storage can't be formatted: {(made.stderr or made.stdout).strip()[-500:]}",
            state=f"{home / 'data'} holds no events",
            next_step="fix the cause that it names (disk, folder), then anabranch up",
        )


def _command(settings: Settings, options: list[str]) -> tuple[str, ...]:
    home = kafka_home(settings)
    places = (f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}", f"-Djava.io.tmpdir={unpacked(settings)}")
    archived = archive_options(broker_archive(settings))
    fixed = ("-Djava.net.preferIPv4Stack=true", *places, "-cp", _class_path(settings))
    return (java(), *options, *archived, *fixed)


def _class_path(settings: Settings) -> str:
    spec = importlib.util.find_spec("pyspark")  # finds the folder without a slow import
    if spec is None or spec.origin is None:
        raise BrokenState("PYSPARK_MISSING", "pyspark is not installed", next_step="make setup")
    jars = Path(spec.origin).parent / "jars"
    front = [str(jar) for name in FROM_SPARK for jar in sorted(jars.glob(f"{name}-[0-9]*.jar"))]
    return os.pathsep.join([*front, str(settings.jars / "kafka" / "*")])


def _ready(settings: Settings) -> bool:
    """Whether the broker answers a client, not only accepts a connection."""
    from anabranch.core.errors import AnabranchError
    from anabranch.ingest.kafka.admin import existing_topics

    try:
        socket.create_connection((settings.kafka_host, settings.kafka_port), timeout=1).close()
        existing_topics(settings)
    except (OSError, AnabranchError):
        return False
    return True
