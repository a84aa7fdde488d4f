"""What a view's stream says of an error in a micro-batch is what its table says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from anabranch.compute.speed._cut_resolver import CutResolver
from anabranch.compute.speed._failing_event import FailingEvent
from anabranch.compute.speed._sink import Sink
from anabranch.compute.speed.table import SpeedTable
from anabranch.compute.speed.view_stream import _ended
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.cut import Cut
from py4j.protocol import Py4JNetworkError
from support.landed_sample import FLIGHTS
from support.small_platform import DAYS, SPEED, V1, Clinic, checkpoint, departed, rows_on

pytestmark = pytest.mark.unit
OWNER = "speed-v1"


@dataclass
class Frame:
    """The changed rows of a micro-batch, as Spark gives them; ``then``: what happens when they are let go."""

    rows: pa.Table
    then: Callable[[], None] = lambda: None
    before: Callable[[], None] = lambda: None

    def persist(self) -> None: ...

    def count(self) -> int:
        return int(self.rows.num_rows)

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        self.before()
        return self.rows

    def unpersist(self) -> None:
        self.then()


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """Its stream has committed one micro-batch and planned the next one."""
    made = Clinic(Settings(home=tmp_path))
    for batch in (0, 1):
        made.land([departed(10 * batch + n, DAYS[n % 5]) for n in range(5)])
        if batch == 0:
            made.speed()
        made.table.update_incremental()
        end = {"reservoirId": str(made.table.metadata().id), "reservoirVersion": made.table.version() + 1}
        checkpoint(made.handle().speed_checkpoint, OWNER, batch, [{**end, "index": -1, "isStartingVersion": False}])
    return made


def sink(clinic: Clinic, sought: list[Cut] | None = None) -> Sink:
    def seek(_: Cut, until: Cut) -> FailingEvent | None:
        if sought is not None:
            sought.append(until)
        return None

    ref = clinic.handle()
    spark = cast(Any, SimpleNamespace(streams=SimpleNamespace(get=lambda _: None)))
    table, landing = SpeedTable(ref.speed_table, V1, SPEED), CutResolver({FLIGHTS.name: clinic.uri})
    return Sink(spark, table, landing, ref.speed_checkpoint, 2, find_failing_event=seek)


def changed(**what: Callable[[], None]) -> Any:
    """Few rows of many events."""
    return Frame(rows_on(DAYS[:1], origin="NEW"), **what)


def failure(stream: Sink, frame: Any) -> BrokenState:
    with pytest.raises(BrokenState):
        stream(frame, 1)
    return cast(BrokenState, stream.failure)


def gone() -> None:
    raise Py4JNetworkError("the JVM has gone")


def committed(clinic: Clinic) -> str:
    found = latest_commit(clinic.handle().speed_table)
    assert found is not None
    return found.note.batch


def test_an_error_behind_the_commit_does_not_say_that_nothing_is_in(clinic: Clinic) -> None:
    sought = list[Cut]()
    stream = sink(clinic, sought)
    told = failure(stream, changed(then=gone))
    assert committed(clinic) == f"{OWNER}:1"
    assert (told.code, told.state) == ("BATCH_FAILED", "this batch is in the speed table, at its version 2")
    assert told.next_step.startswith("nothing:")
    assert "the JVM has gone" in told.what
    assert not sought, "no event has made it fail"


def test_a_signal_between_the_commit_and_its_answer_is_looked_up(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where few events changed the rows; the next disk access behind the commit is the one that is interrupted."""
    stream = sink(clinic)
    stream._small_rows = 10
    update = type(stream.table._table).update_incremental

    def interrupted(table: Any) -> None:
        update(table)
        if table.version() > 1 and stream.failure is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(stream.table._table), "update_incremental", interrupted)
        told = failure(stream, changed())
    assert committed(clinic) == f"{OWNER}:1"
    assert told.state == "this batch is in the speed table, at its version 2"


def test_without_a_look_nothing_is_claimed(clinic: Clinic) -> None:
    log = Path(clinic.handle().speed_table) / "_delta_log"

    def gone_and_torn() -> None:
        max(log.glob("*.json")).write_text("")
        gone()

    told = failure(sink(clinic), changed(then=gone_and_torn))
    assert told.state.startswith("it isn't known whether this batch is in the speed table: ")
    assert "commits the batch if it isn't in" in told.next_step


def test_an_error_of_spark_behind_the_sink_says_where_the_table_ends(clinic: Clinic) -> None:
    """It writes that a micro-batch is done when the sink has committed it."""
    stream = sink(clinic)
    before = stream.cut
    stream(changed(), 1)
    assert stream.cut == clinic.cut != before
    query = cast(Any, SimpleNamespace(view=V1, sink=stream))
    told = _ended(query, OSError("no space left on device"))
    assert told.state == f"the speed table ends at {clinic.cut}, its last commit; nothing is committed twice"


def test_an_error_before_the_commit_says_that_nothing_is_in(clinic: Clinic) -> None:
    sought = list[Cut]()
    told = failure(sink(clinic, sought), changed(before=gone))
    assert told.state == "nothing of this batch was committed; the speed table ends at the batch before"
    assert (committed(clinic), sought) == (f"{OWNER}:0", [clinic.cut])
    stream = sink(clinic)
    stream(changed(), 1)
    assert (committed(clinic), stream.failure) == (f"{OWNER}:1", None)
