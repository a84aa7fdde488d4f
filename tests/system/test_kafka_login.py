"""A log behind a login and TLS: what is right works in every client, what is wrong is a clear error within seconds."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.change.replay._log_mirror import LogMirror, TopicSource
from anabranch.contracts import Contract, Event, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import Admin, create_missing, drift, end_offsets
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.kafka_source import read_range
from anabranch.ingest.landing.stream import start
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime import lifecycle
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from deltalake import DeltaTable
from support.processes import everything, listening
from support.secret_scan import Secrets
from support.tls_authority import Authority, authority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
SECONDS = 8.0
"""Within these a wrong login is told."""
Change = Callable[[Settings, Path], dict[str, object]]


@pytest.fixture
def topic(guarded: Settings) -> Topic:
    parcel = Contract("parcel.seen", 1, {"type": "object", "properties": {"n": {"type": "integer"}}})
    made = Topic(f"guarded_{secrets.token_hex(4)}", (parcel,), partitions=1, allowed_lateness=timedelta(hours=1))
    create_missing(guarded, [made])
    return made


@pytest.fixture
def settings(guarded: Settings, tmp_path: Path) -> Settings:
    return guarded.model_copy(update={"home": tmp_path})


def send(settings: Settings, topic: Topic, count: int) -> None:
    with Producer(settings, Declarations({topic.name: topic})) as producer:
        for n in range(count):
            name = f"{count}-{n}"
            producer.send(Event(name, "/test", "parcel.seen", name, NOON, {"n": n}, topic.contracts[0].uri))


def landed(settings: Settings, topic: Topic) -> int:
    rows: int = DeltaTable(landing_table(settings, topic.name)).to_pyarrow_table().num_rows
    return rows


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every option that Spark's readers are given."""
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

    given: list[str] = []
    for reader in (DataFrameReader, DataStreamReader):

        def option(self: Any, key: str, value: Any, plain: Callable[..., Any] = reader.option) -> Any:
            given.append(f"{key}={value}")
            return plain(self, key, value)

        monkeypatch.setattr(reader, "option", option)
    return given


def test_what_is_sent_is_landed_and_read_again_and_spark_never_knows_the_password(
    spark: SparkSession, settings: Settings, topic: Topic, planted: Secrets, tmp_path: Path,
    capfd: pytest.CaptureFixture[str], options: list[str],
) -> None:  # fmt: skip
    send(settings, topic, 10)
    query = start(spark, settings, topic, once=True)
    assert query.awaitTermination(120)
    assert (landed(settings, topic), verify(settings, topic).sound) == (10, True)

    again = read_range(spark, settings, topic, {0: (2, 7)})
    assert [row["offset"] for row in again.sort("offset").collect()] == [2, 3, 4, 5, 6]
    table = DeltaTable(landing_table(settings, topic.name))
    mirror = LogMirror(table.table_uri, tmp_path / "replayed", TopicSource(spark, settings, topic))
    mirror.release(table.version())
    assert (mirror.reread, DeltaTable(mirror.uri).to_pyarrow_table().num_rows) == (10, 10)
    again.explain("extended")
    told = [capfd.readouterr().out, str([p.json for p in query.recentProgress]), str(query.status), str(query.name)]
    told += [query._jsq.toString(), str(spark.sparkContext.getConf().getAll())]
    assert "kafka" in told[0].lower(), "the plan shows nothing: this test says nothing"
    assert sum("sasl.jaas.config" in option for option in options) == 3, "of the stream, the range, the replay"
    assert planted.within("".join([*told, *options]).encode()) == []


def test_a_user_by_scram(
    spark: SparkSession, settings: Settings, topic: Topic, planted: Secrets, tmp_path: Path
) -> None:
    """Who is made on the broker, with a password of their own."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    made = UserScramCredentialUpsertion("reader", mechanism, planted.known["reader"].encode(), b"salt")
    admin = Admin(settings)  # its answers end with it
    for answer in admin.alter_user_scram_credentials([made]).values():
        answer.result(10)
    send(settings, topic, 3)
    file = tmp_path / "password"
    file.write_text(planted.known["reader"])
    update = {"kafka_user": "reader", "kafka_password_file": file, "kafka_mechanism": "SCRAM-SHA-512"}
    reader = settings.model_copy(update=update)
    assert end_offsets(reader, topic.name) == {0: 3}
    assert read_range(spark, reader, topic, {0: (0, 3)}).count() == 3


def wrong_password(settings: Settings, folder: Path) -> dict[str, object]:
    (folder / "wrong").write_text("planted-but-wrong")
    return {"kafka_password_file": folder / "wrong"}


def wrong_authority(settings: Settings, folder: Path) -> dict[str, object]:
    return {"kafka_ca": authority(folder, "another").file}


def wrong_host(settings: Settings, folder: Path) -> dict[str, object]:
    return {"bootstrap_servers": f"localhost:{settings.kafka_port}"}


WRONG: list[tuple[Change, str, str]] = [
    (wrong_password, "BROKER_LOGIN_REFUSED", "ANABRANCH_KAFKA_PASSWORD"),
    (wrong_authority, "BROKER_UNTRUSTED", "ANABRANCH_KAFKA_CA"),
    (wrong_host, "BROKER_UNTRUSTED", "certificate names the host"),
]


def test_a_wrong_login_is_told_within_seconds_and_nothing_is_lost(
    spark: SparkSession, settings: Settings, topic: Topic, planted: Secrets, tmp_path: Path
) -> None:
    send(settings, topic, 4)
    another = {"bootstrap_servers": settings.brokers, "kafka_certificate": None}  # as of a cluster of somebody else
    for change, code, advice in WRONG:
        wrong = settings.model_copy(update=another | change(settings, tmp_path))
        for call in (
            lambda wrong: drift(wrong, [topic]),
            lambda wrong: send(wrong, topic, 5),
            lambda wrong: start(spark, wrong, topic, once=True),
            lambda wrong: lifecycle.start(wrong, ["landing"]),
        ):
            began = time.monotonic()
            with pytest.raises(BadInput) as caught:
                call(wrong)
            assert time.monotonic() - began < SECONDS
            assert (caught.value.code, advice in caught.value.next_step) == (code, True)
            assert caught.value.state == "nothing was changed by this call"
            assert planted.within(str(caught.value).encode()) == []
            assert "planted-but-wrong" not in str(caught.value)
        assert lifecycle.status(wrong) == []
    assert end_offsets(settings, topic.name) == {0: 4}
    assert start(spark, settings, topic, once=True).awaitTermination(120)
    assert (landed(settings, topic), verify(settings, topic).sound) == (4, True)


def test_sparks_own_client_fails_too_without_a_secret_in_its_words(
    spark: SparkSession, settings: Settings, topic: Topic, planted: Secrets, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """As when a password is changed while a stream runs: its query ends, it doesn't wait."""
    wrong = settings.model_copy(update=wrong_password(settings, tmp_path))
    began = time.monotonic()
    with pytest.raises(Exception, match=r"uthentication|SSL|handshake") as caught:
        read_range(spark, wrong, topic, {0: (0, 1)}).collect()
    assert time.monotonic() - began < 30
    told = str(caught.value) + capfd.readouterr().err
    assert planted.within(told.encode()) == []
    assert "planted-but-wrong" not in told


def test_without_a_login_nobody_is_answered(guarded: Settings, broker: Settings) -> None:
    """A broker without a login answers the same question, by its number."""
    assert [answered_plainly(settings) for settings in (broker, guarded)] == [True, False]


def answered_plainly(settings: Settings) -> bool:
    """Whether it says which requests it knows (ApiVersions), without TLS and a login."""
    with socket.create_connection(("127.0.0.1", settings.kafka_port), timeout=5) as plain:
        plain.sendall(b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x07\x00\x04nada")
        return plain.recv(100)[4:8] == b"\x00\x00\x00\x07"


def test_what_the_broker_was_told_holds_no_secret(guarded: Settings, planted: Secrets, trusted: Authority) -> None:
    properties = (guarded.home / "kafka/server.properties").read_text()
    assert "jaas" in properties
    assert planted.within(properties.encode()) == []
    records = [json.loads(file.read_text()) for file in guarded.run.glob("*.json")]
    assert planted.within(json.dumps(records).encode()) == []
    assert trusted.file == guarded.kafka_ca


def test_the_broker_listens_on_loopback(guarded: Settings) -> None:
    ours = {process.pid for process in everything(guarded)}
    found = [each for each in listening() if each.pid in ours]
    assert {each.port for each in found} >= {guarded.kafka_port, guarded.kafka_controller_port}
    assert {each.host for each in found} == {"127.0.0.1"}
