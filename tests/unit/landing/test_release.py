"""A release from quarantine beside a landing that commits all the time; decoding is a stand-in without an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing import epochs
from anabranch.ingest.landing.audit import _release_epoch, quarantine
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.state import open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, INDEXED, landing_schema
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.delta_tables import folder_of
from support.landed_sample import FLIGHTS

pytestmark = pytest.mark.unit
NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
SCHEMA = landing_schema(FLIGHTS)
SPARK: Any = None


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path)


def event(offset: int, name: str) -> dict[str, Any]:
    return {"topic": FLIGHTS.name, "partition": 0, "offset": offset, "append_time": NOON, "decision": "valid",
            "event_id": name, "source": "test", "type": "flight.departed", "event_time": NOON,
            EVENT_DATE: NOON.date()}  # fmt: skip


def refused(offset: int, name: str) -> dict[str, Any]:
    return {**event(offset, name), "decision": "quarantined", "reason": "not_json: cut", "value": name.encode(),
            "event_id": None, "source": None, "event_time": None, EVENT_DATE: None}  # fmt: skip


def land(settings: Settings, *rows: Mapping[str, Any]) -> None:
    """What a running landing does."""
    table = open_landing(settings, FLIGHTS)
    before = read_state(table, FLIGHTS)
    epoch = before.epoch + 1
    data = pa.Table.from_pylist([{**row, "epoch": epoch} for row in rows], SCHEMA)
    staged = stage_arrow(data, str(folder_of(table)), f"epoch-{epoch}-{uuid4().hex}", EVENT_DATE, INDEXED)
    cut = Cut({FLIGHTS.name: Position(epoch, before.offsets)})
    extra = {**before.unchanged(), "rows": len(rows)}
    append(table, staged, CommitMetadata(writer_of(FLIGHTS), uuid4().hex, cut, extra=extra))


class Decoded:
    """All records are valid now, except those that hold ``bad``."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = records

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        rows = [
            refused(r["offset"], "bad") if r["value"] == b"bad" else
            {**event(r["offset"], r["value"].decode()), "value": r["value"]}
            for r in self._records
        ]  # fmt: skip
        names = [name for name in SCHEMA.names if name not in ("epoch", "late", "released_from")]
        return pa.Table.from_pylist(rows, pa.schema([SCHEMA.field(name) for name in names]))


@pytest.fixture
def decoding(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[int]]:
    """Calls what it is given while records are decoded, and says how many there were each time."""

    def arrange(meanwhile: Callable[[], object]) -> list[int]:
        decoded: list[int] = []

        def decode(records: Sequence[Mapping[str, Any]], _: object) -> Decoded:
            decoded.append(len(records))
            meanwhile()
            return Decoded(records)

        monkeypatch.setattr(_release_epoch, "raw_frame", lambda _spark, _topic, records: records)
        monkeypatch.setattr(_release_epoch, "decode", decode)
        monkeypatch.setattr(_release_epoch, "with_reasons", lambda rows, _: rows)
        return decoded

    return arrange


def outcome(settings: Settings) -> dict[int, tuple[str, int | None]]:
    rows = open_landing(settings, FLIGHTS).to_pyarrow_table().to_pylist()
    return {row["offset"]: (row["decision"], row["released_from"]) for row in rows if row["released_from"]}


def test_a_release_is_done_beside_a_landing_that_commits_while_it_decodes_and_before_each_try(
    settings: Settings, decoding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(settings, refused(1, "a"), refused(2, "bad"), refused(3, "b"), refused(4, "b"))
    faster = iter(range(10))

    def beaten(*said: Any) -> object:
        if (n := next(faster, None)) is not None:
            land(settings, event(100 + n, f"x{n}"))
        return append(*said)

    monkeypatch.setattr(epochs, "append", beaten)
    decoded = decoding(lambda: land(settings, event(50, "y")))
    done = release(SPARK, settings, FLIGHTS, None, "a test")
    assert decoded == [4], "decoded once, outside of what is tried again"
    assert (done.released, done.duplicates, done.still) == (2, 1, {"not_json: cut": 1})
    assert outcome(settings) == {1: ("valid", 1), 3: ("valid", 1), 4: ("duplicate", 1)}
    assert [record.offset for record in list_quarantined(settings, FLIGHTS)] == [2]
    assert done.epoch == read_state(open_landing(settings, FLIGHTS), FLIGHTS).epoch


def test_what_landed_or_was_released_while_it_decoded_is_seen(settings: Settings, decoding: Any) -> None:
    land(settings, refused(1, "a"), refused(2, "b"), refused(3, "c"))
    inner = decoding(lambda: None)

    def meanwhile() -> None:
        decoding(lambda: None)
        land(settings, event(9, "b"))
        release(SPARK, settings, FLIGHTS, (0, 1), "somebody else")

    decoding(meanwhile)
    done = release(SPARK, settings, FLIGHTS, None, "a test")
    assert (done.released, done.duplicates, inner) == (1, 1, [])
    assert outcome(settings) == {1: ("valid", 1), 2: ("duplicate", 1), 3: ("valid", 1)}


def test_records_are_released_in_parts_that_fit_into_memory(
    settings: Settings, decoding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "PART_RECORDS", 3)
    monkeypatch.setattr(quarantine, "PART_BYTES", 40)
    land(settings, *(refused(n, "x" * 39 + str(n) if n < 2 else str(n)) for n in range(8)))
    decoded = decoding(lambda: None)
    done = release(SPARK, settings, FLIGHTS, None, "a test")
    assert max(decoded) <= 3
    assert sum(decoded) == done.released == 8
    assert decoded[0] == 1, "a large one"
    assert set(outcome(settings)) == set(range(8))
    assert list_quarantined(settings, FLIGHTS) == []


def test_a_release_keeps_the_append_time_to_the_microsecond(settings: Settings, decoding: Any) -> None:
    at = NOON + timedelta(microseconds=1)
    land(settings, {**refused(1, "a"), "append_time": at})
    (record,) = list_quarantined(settings, FLIGHTS)
    micros = quarantine._raw(record)["append_time"]
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) == at
