"""Settings of one platform: folders, ports, connections, limits.

Every field can be set by an environment variable ``ANABRANCH_<FIELD>`` (``ANABRANCH_KAFKA_PORT=29092``) or
a line of ``anabranch.env`` in the project's folder. Nothing is written, and no connection is opened.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from anabranch.core.airflow_settings import Login, Notifier, Role
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import check_project, current_project, working_folder
from anabranch.core.project_folder import project_root as project_root  # imported from here by most

Port = Annotated[int, Field(ge=1024, le=65535)]
SAFE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_SECRET = re.compile(r"(?i)secret|password|token|access\.?key|jaas|username|mechanism|\.pem$|oauthbearer\.config")
"""Names of options that hold a secret or a user name. Their values would show up in Spark's plans and in ``ps``."""
_URL_ENCODED = re.compile(r'[^\x21-\x7e]|["#%:<>?`{}|\\^\[\]]')
"""Characters that delta-rs and Hadoop encode differently when they take a path for a URL."""
_INTERVAL = r"^\d+(\.\d+)? (millisecond|second|minute|hour)s?$"
"""The format of Spark's triggers."""
UNFIT = re.compile(r'["\\\x00-\x1f\x7f]')
"""Characters that a password of Kafka's Java client can't hold."""
UNFIT_PASSWORD = (
    "a password with quotes, backslashes or line breaks can't be given to Kafka's Java client",
    "choose another one; a file is written without a line break by: printf %s 'the password' > FILE",
)


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


Folder = Annotated[Path, AfterValidator(_absolute)]
File = Annotated[
    Path | None, BeforeValidator(lambda value: value or None), AfterValidator(lambda p: p and _absolute(p))
]
"""None if empty."""


class Settings(BaseSettings):
    """All settings, validated on creation. Times are seconds unless the name says otherwise."""

    model_config = SettingsConfigDict(env_prefix="ANABRANCH_", extra="forbid", frozen=True, hide_input_in_errors=True)

    project: Folder = Field(default_factory=lambda: current_project() or working_folder())
    """The folder with dags/, spark_jobs/contracts and spark_jobs/views."""
    home: Folder = Field(default_factory=lambda given: check_project(given["project"]) / ".anabranch")
    """Everything that the platform writes: tables, checkpoints, logs, the data of the broker and of Postgres."""
    jars: Folder = Field(default_factory=lambda given: given["project"] / ".jars")
    load_folder: Folder = Field(default_factory=lambda given: given["project"] / "data")
    """The DAG ``load`` reads local files below this folder only."""

    bootstrap_servers: str = ""
    """An external Kafka cluster, ``host:port,...``; empty means the embedded broker."""
    kafka_options: dict[str, str] = Field(default_factory=dict)
    """More client settings (names of librdkafka), as JSON in the environment. Must not hold a secret."""
    kafka_user: str = Field(default="", pattern=r"^[\w.@/+=$:-]{0,200}$")
    """The user for the broker, over TLS (SASL_SSL); empty: no login. The password comes from one of the next two."""
    kafka_password: SecretStr = SecretStr("")
    kafka_password_file: File = None
    """A file that holds only the password, without a line break at its end."""
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    kafka_ca: File = None
    """CA certificates (PEM) for the broker's certificate; without a user: TLS without a login."""
    kafka_host: str = Field(default="127.0.0.1", pattern=r"^[A-Za-z0-9.-]{1,253}$")
    """The address that the embedded broker listens on and advertises; beyond loopback only with a login."""
    kafka_certificate: File = None
    """Key and certificate of the embedded broker in one file (PEM): it then accepts TLS with a login only."""
    kafka_port: Port = 19092
    kafka_controller_port: Port = 19093
    postgres_port: Port = 15432
    airflow_port: Port = 18080
    http_host: str = Field(default="127.0.0.1", pattern=r"^[A-Za-z0-9.-]{1,253}$")
    """The address that the HTTP server for events listens on; beyond loopback only with a certificate."""
    http_port: Port = 18090
    http_certificate: File = None
    """Key and certificate of the HTTP server in one file (PEM): it then speaks TLS only."""
    http_checked_topics: tuple[str, ...] = ()
    """Topics whose events the HTTP server holds to their contracts before it sends them, as a JSON list. Those of other
    topics are quarantined by landing if they are wrong."""
    airflow_url: str = Field(default="", pattern=r"^(https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[\w./-]*)?)?$")
    """Where our processes reach Airflow when it runs in another container or on another machine: tasks write the notes
    of their runs there. Empty: the address from Airflow's own settings; for the CLI ``airflow_port`` of this
    machine."""

    spark_master: str = Field(default="local[2]", pattern=r"^(local(\[(\d+|\*)(,\d+)?\])?|yarn|(spark|k8s)://\S+)$")
    spark_driver_memory: str = Field(default="2g", pattern=r"^[1-9]\d*[kmgtKMGT]$")
    """The heap of each engine's JVM: a number and k, m, g or t."""
    shuffle_partitions: int = Field(default=2, ge=1)
    """Shuffle partitions of streams and batches; a stream's checkpoint keeps the value of its first start."""
    spark_conf: dict[str, str] = Field(default_factory=dict)

    max_offsets_per_trigger: int = Field(default=200_000, ge=1)
    """The maximum number of records in one landing epoch."""
    small_commit_rows: int = Field(default=50_000, ge=0)
    """Micro-batches of up to this many input rows are staged with Arrow in the driver, larger ones by Spark."""
    state_limit_mb: int = Field(default=2_000, ge=1)
    """The maximum state of one view's stream; beyond it the stream stops with an error. Half of it gives a warning."""
    landing_interval: str = Field(default="1 second", pattern=_INTERVAL)
    """The minimum time between two landing epochs. Most of the cost of a small epoch doesn't depend on its rows."""
    landing_seconds_beside_runs: float = Field(default=3.0, ge=0, le=60)
    """The minimum duration of an epoch while an Airflow run rebuilds days: streams run one micro-batch for each epoch,
    and with fewer of them the run gets more of the cores. 0: no difference."""
    hang_seconds: float = Field(default=60.0, ge=1)
    """A busy stream that makes no progress for this long (or longer, see ``core.liveness``) is restarted."""
    trigger_interval: str = Field(default="0 seconds", pattern=_INTERVAL)
    """How often a view's stream polls for new data; zero means as soon as the last micro-batch is done."""

    behind_epochs: int = Field(default=100, ge=1)
    """`anabranch doctor` reports a view's stream that is more epochs behind landing than this. Landing makes at most
    one a second: during a rebuild a stream is about ten behind, after a long stop it catches up within minutes."""

    airflow_logins: dict[Login, Role] = Field(default_factory=dict)
    """Logins of our own Airflow beside ``admin``, by name with their role, as JSON. `up` makes their passwords."""
    notifiers: list[Notifier] = Field(default_factory=list)
    """Airflow notifiers that are called for each run of ours that fails or is refused, as JSON: their class and its
    arguments. Must not hold a secret."""

    approval_events: int = Field(default=10_000_000, ge=0)
    """A reprocess or repair that reads more events than this waits until a person has approved its plan in Airflow."""

    maintenance_schedule: str = "40 * * * *"
    """When the DAG maintain runs: a cron expression, in UTC. Streams that commit once a second leave thousands of files
    an hour, and each reader opens all of them."""
    keep_days: int = Field(default=30, ge=7)
    """How long logs, and the control files of finished builds and replays, are kept."""

    reader: str = Field(default="", max_length=200)
    """The reader name of this process, for routes between versions; empty: the user and the machine."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then ``anabranch.env`` of the project that the environment names, or of the
        current one."""
        named = os.environ.get("ANABRANCH_PROJECT")
        project = Path(named).expanduser() if named else current_project()
        file = project / "anabranch.env" if project else None
        return init_settings, env_settings, DotEnvSettingsSource(settings_cls, env_file=file)

    @model_validator(mode="after")
    def _check_secrets(self) -> Self:
        of_kafka = "use ANABRANCH_KAFKA_USER, _PASSWORD_FILE and _MECHANISM, or an option that names a file"
        given_options: list[tuple[str, Mapping[str, Any], str]]
        given_options = [("kafka_options", self.kafka_options, of_kafka), ("spark_conf", self.spark_conf, of_kafka)]
        of_airflow = "store it as a connection in Airflow, and give the notifier the name of the connection"
        given_options += [("notifiers", each.arguments, of_airflow) for each in self.notifiers]
        for field, options, advice in given_options:
            for name in options:
                if _SECRET.search(name) and not name.endswith((".file", ".location")):
                    raise _refused(field, f"{name} isn't allowed here: logs, plans and ps show options", advice)
        if self.kafka_user and "security.protocol" in self.kafka_options:
            raise _refused("kafka_options", "security.protocol: a login always uses TLS (SASL_SSL)", "leave it out")
        given = bool(self.kafka_password.get_secret_value()) + bool(self.kafka_password_file)
        if given > 1:
            raise _refused("kafka_password_file", "the password is given twice", "unset ANABRANCH_KAFKA_PASSWORD")
        if given != bool(self.kafka_user):
            advice = "set ANABRANCH_KAFKA_USER and ANABRANCH_KAFKA_PASSWORD_FILE (or ..._PASSWORD), or neither"
            raise _refused("kafka_user", "a user needs a password, and a password a user", advice)
        if UNFIT.search(self.kafka_password.get_secret_value()):
            raise _refused("kafka_password", *UNFIT_PASSWORD)
        return self

    @model_validator(mode="after")
    def _check_home_path(self) -> Self:
        if found := _URL_ENCODED.search(str(self.home)):
            advice = "choose another folder: its path may be ASCII only, without spaces, colons, brackets, %, # and ?"
            raise _refused("home", f"{str(self.home)!r} holds {found[0]!r}", advice)
        return self

    @model_validator(mode="after")
    def _check_network_access(self) -> Self:
        tls = "set ANABRANCH_KAFKA_USER, ..._PASSWORD_FILE, ..._CERTIFICATE (the broker's) and ..._CA (its clients')"
        if not self.bootstrap_servers:
            if not is_loopback(self.kafka_host) and not self.kafka_certificate:
                what = f"{self.kafka_host} is not loopback: without a login anyone who reaches it can use the log"
                raise _refused("kafka_host", what, tls)
            if len({bool(self.kafka_certificate), bool(self.kafka_user), bool(self.kafka_ca)}) > 1:
                raise _refused("kafka_certificate", "the embedded broker needs both a login and TLS, or neither", tls)
            if not re.fullmatch(r"[A-Za-z0-9_-]*", self.kafka_user):
                raise _refused("kafka_user", "the embedded broker's user is letters, digits, - and _ only", "rename it")
        if not is_loopback(self.http_host) and not self.http_certificate:
            what = f"{self.http_host} is not loopback: without TLS anyone on the way can read the tokens"
            raise _refused("http_host", what, "set ANABRANCH_HTTP_CERTIFICATE, or leave TLS to a proxy on this machine")
        conf = {name.lower(): value for name, value in self.spark_conf.items()}
        for name in ("spark.driver.bindaddress", "spark.driver.host"):
            if not is_loopback(conf.get(name, "127.0.0.1")) and conf.get("spark.authenticate", "").lower() != "true":
                what = f"{name}={conf[name]} lets anyone who reaches it run code in Spark's driver"
                raise _refused("spark_conf", what, "set spark.authenticate=true too")
        return self

    @property
    def contracts_folder(self) -> Path:
        """Where the project declares its topics and their contracts."""
        return self.project / "spark_jobs" / "contracts"

    @property
    def views_folder(self) -> Path:
        """Where the project declares its views."""
        return self.project / "spark_jobs" / "views"

    @property
    def lake(self) -> Path:
        """The root of every Delta table."""
        return self.home / "lake"

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoints"

    @property
    def locks(self) -> Path:
        return self.home / "locks"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """One small JSON file for each process that `anabranch up` started."""
        return self.home / "run"

    @property
    def brokers(self) -> str:
        return self.bootstrap_servers or f"{self.kafka_host}:{self.kafka_port}"


def heap(settings: Settings) -> str:
    """Of each engine's JVM, as it is given to it."""
    return settings.spark_conf.get("spark.driver.memory", settings.spark_driver_memory)


def heap_bytes(settings: Settings) -> int:
    """The same as a number; that of ``spark_driver_memory`` where Spark was told otherwise in words of its own."""
    for text in (heap(settings), settings.spark_driver_memory):
        if found := re.fullmatch(r"(\d+)([kmgt])b?", text.strip().lower()):
            return int(found[1]) << 10 * (1 + "kmgt".index(found[2]))
    raise AssertionError("spark_driver_memory has a pattern")


def is_loopback(host: str) -> bool:
    """Whether ``host`` is reachable from this machine only. A name other than localhost may be any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(field: str, what: str, advice: str) -> BadInput:
    return BadInput(
        "SETTINGS_REFUSED",
        f"ANABRANCH_{field.upper()}: {what}",
        state="nothing was started",
        next_step=advice,
        settings=[field],
    )


def load_settings(**overrides: object) -> Settings:
    """The settings of this process; ``overrides`` win over the environment. Raises BadInput SETTINGS_REFUSED."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as refused:
        names = [f"ANABRANCH_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in refused.errors()]
        raise BadInput(
            "SETTINGS_REFUSED",
            "; ".join(names),
            next_step="correct the environment variable, or the line of anabranch.env",
            settings=[e["loc"][0] for e in refused.errors() if e["loc"]],
        ) from None
    except SettingsError as unreadable:  # its text names the field; its cause holds the value, which may be a secret
        raise BadInput("SETTINGS_REFUSED", str(unreadable), next_step="write the value as JSON") from None
