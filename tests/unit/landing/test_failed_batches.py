"""What landing says of an error in a micro-batch is what the table says: it is in, it isn't, or that isn't known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from anabranch.contracts import Topic
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.ingest.landing.id_index import IdIndex
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.stream import take_turn
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.ingest.landing.writer import LandingWriter
from anabranch.lake.layout import landing_checkpoint
from anabranch.testing._fake_landing import Decisions
from support.landed_sample import FLIGHTS
from support.small_platform import departed

pytestmark = pytest.mark.unit
RECORDS = 3


@dataclass
class Decoded:
    """The rows of a micro-batch, as Spark gives them."""

    rows: pa.Table

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return self.rows


def batch(settings: Settings, topic: Topic = FLIGHTS) -> tuple[LandingWriter, Any]:
    """A writer that has just started, and its first micro-batch."""
    checkpoint = landing_checkpoint(settings, FLIGHTS.name)
    rows = Decisions(FLIGHTS).decide([departed(4 * number) for number in range(RECORDS)])
    for name, end in (("sources/0/0", 0), ("offsets/0", RECORDS)):
        path = checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        said = json.dumps({topic.in_kafka: {str(p): end if p == 0 else 0 for p in range(FLIGHTS.partitions)}})
        path.write_text(f"v1\n{said}" if end == 0 else f'v1\n{{"batchWatermarkMs":0}}\n{said}')
    (checkpoint / "metadata").write_text('{"id": "a"}')
    table = open_landing(settings, FLIGHTS)
    writer = LandingWriter(settings, topic, table, checkpoint, "", take_turn(settings, FLIGHTS))
    return writer, Decoded(pa.Table.from_pylist(rows, landing_schema(FLIGHTS)))


def failure(writer: LandingWriter, decoded: Any) -> BrokenState:
    with pytest.raises(AnabranchError):
        writer(decoded, 0)
    assert writer.failure is not None
    return cast(BrokenState, writer.failure)


def landed(settings: Settings) -> int:
    table = open_landing(settings, FLIGHTS)
    assert table.to_pyarrow_table().num_rows == sum(read_state(table, FLIGHTS).offsets.values())
    return int(table.to_pyarrow_table().num_rows)


def wrote(name: str, then: Callable[[Path], None]) -> Callable[..., None]:
    """The disk's ``write``, with what happens when it is asked for a file whose name ends so."""

    def write(disk: object, path: Path, content: bytes) -> None:
        if path.name.endswith(name):
            then(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return write


def signalled(_: Path) -> None:
    raise KeyboardInterrupt


def signalled_and_torn(checksum: Path) -> None:
    """And a power cut leaves the commit without content."""
    checksum.with_suffix(".json").write_text("")
    raise KeyboardInterrupt


@pytest.mark.parametrize("fault", [MemoryError("no memory"), BrokenState("TABLE_UNREADABLE", "x", next_step="y")])
def test_an_error_behind_the_commit_does_not_say_that_nothing_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """The index of ids is written behind it."""
    settings = Settings(home=tmp_path)
    writer, decoded = batch(settings)
    with monkeypatch.context() as patched:
        save = IdIndex.save

        def saved(index: IdIndex, origin: Any) -> None:
            if writer.table.version():
                raise fault
            save(index, origin)

        patched.setattr(IdIndex, "save", saved)
        told = failure(writer, decoded)
    assert (told.code, told.fields["epoch"]) == ("BATCH_FAILED", 1)
    assert told.state == "this micro-batch is in the table, by epoch 1"
    assert told.next_step.startswith("nothing:")
    assert str(fault).splitlines()[0].split(" [")[0] in told.what
    assert landed(settings) == RECORDS
    again, decoded = batch(settings)
    again(decoded, 0)
    assert (again.failure, landed(settings)) == (None, RECORDS)


@pytest.mark.parametrize("topic", [FLIGHTS, replace(FLIGHTS, kafka_topic="prod.flights")], ids=["ours", "another"])
def test_a_signal_between_the_commit_and_its_answer_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: Topic
) -> None:
    """Also of a topic that has another name in Kafka."""
    settings = Settings(home=tmp_path)
    writer, decoded = batch(settings, topic)
    with monkeypatch.context() as patched:
        patched.setattr(type(DISK), "write", wrote("1.crc", signalled))
        told = failure(writer, decoded)
    assert told.state == "this micro-batch is in the table, by epoch 1"
    assert landed(settings) == RECORDS


def test_without_a_look_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path)
    writer, decoded = batch(settings)
    with monkeypatch.context() as patched:
        patched.setattr(type(DISK), "write", wrote("1.crc", signalled_and_torn))
        told = failure(writer, decoded)
    assert told.state.startswith("it isn't known whether this micro-batch is in the table: ")
    assert "looks into the table" in told.next_step


def test_an_error_before_the_commit_says_that_nothing_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path)
    writer, decoded = batch(settings)
    with monkeypatch.context() as patched:
        patched.setattr(Decoded, "toArrow", lambda _: signalled(tmp_path))
        told = failure(writer, decoded)
    assert told.state == "nothing of this micro-batch is in the table, which ends at the epoch before"
    assert landed(settings) == 0
    writer(decoded, 0)
    assert landed(settings) == RECORDS
