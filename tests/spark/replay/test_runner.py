"""A replay beside the live stream: one commit that mends what was wrong, or nothing at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.change.replay import runner
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import (
    CANCELLED,
    PUBLISHED,
    REFUSED,
    ControlRequest,
    ReplayState,
    read_state,
    update_control,
)
from anabranch.compute.speed.table import SpeedTable
from anabranch.compute.speed.view_stream import catch_up, start
from anabranch.core.errors import AnabranchError, BrokenState, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Commit, latest_commit, open_table
from anabranch.lake.commits import upsert
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.lake.streams.stream_checkpoint import checkpoint_id
from anabranch.views import View
from anabranch.views.model.definition import CHANGED
from anabranch.views.model.handle import ViewHandle
from deltalake import write_deltalake
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")
AIRCRAFT = sample_views().get("aircraft_now")
RUN = "mend-1"
UNHURRIED = Pace(1.0)


def departed(at: str, origin: str = "JFK", delay: int = 0, tailnum: str = "N1") -> Event:
    time = datetime.fromisoformat(f"2013-01-{at}").replace(tzinfo=UTC)
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": delay, "tailnum": tailnum}
    return Event("flight.departed", time, f"{at}{origin}{delay}{tailnum}", data)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land([departed("01 05:10")], [departed("01 05:20"), departed("01 06:10", "EWR")], [departed("02 07:00")])
    return found


def asked(settings: Settings, view: View = DELAYS, **more: Any) -> ReplayRequest:
    return ReplayRequest(ViewHandle(settings, view, FLIGHTS), RUN, **{"pace": UNHURRIED, **more})


def rows_of(settings: Settings, view: View = DELAYS) -> list[dict[str, Any]]:
    table = open_table(VersionRef(settings, view.name, view.version).speed_table)
    assert table is not None
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: [str(row[k]) for k in view.key])


def head(settings: Settings, view: View = DELAYS) -> Commit:
    found = latest_commit(VersionRef(settings, view.name, view.version).speed_table)
    assert found is not None
    return found


def spoil(settings: Settings, view: View, column: str, *, stranger: bool = False) -> None:
    """Another value in the first row: in a commit of the stream's own, or of somebody who says nothing of it."""
    table = open_table(VersionRef(settings, view.name, view.version).speed_table)
    assert table is not None
    first = rows_of(settings, view)[0]
    value = first[column] + 1 if isinstance(first[column], int) else "SPOILT"
    wrong = pa.Table.from_pylist([{**first, column: value}], pa.schema(table.schema().to_arrow()))
    if stranger:
        held = table.to_pyarrow_table().to_pylist()
        kept = [row for row in held if any(row[key] != first[key] for key in view.key)]
        write_deltalake(table, pa.Table.from_pylist([*kept, *wrong.to_pylist()], wrong.schema), mode="overwrite")
    else:
        upsert(table, wrong, view.key, head(settings, view).note, None if view.kappa else "partition_date")


def left_over(settings: Settings) -> list[str]:
    """What replays have on disk still, but for the checkpoint with which a live stream goes on."""
    roots = [settings.home / "replays", settings.checkpoints / "replay"]
    roots += settings.lake.glob("views/*/*/replay")
    found = [path for root in roots if root.exists() for path in root.rglob("*") if path.is_file()]
    live = [path.resolve() for path in settings.checkpoints.glob("speed/*/*") if path.is_symlink()]
    return sorted(str(path) for path in found if not any(path.is_relative_to(each) for each in live))


def live_checkpoint(settings: Settings, view: View = DELAYS) -> Path:
    return VersionRef(settings, view.name, view.version).speed_checkpoint


def test_a_wrong_state_is_mended_and_the_stream_goes_on_with_the_right_one(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live stream has lost an event: its state, not only its table, says one flight too few."""
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    right = rows_of(settings)
    shutil.rmtree(live_checkpoint(settings))
    shutil.rmtree(VersionRef(settings, DELAYS.name, 1).speed_table)
    with monkeypatch.context() as patched:
        patched.setattr("anabranch.compute.speed.view_stream.events_of", _without_the_first)
        patched.setattr("anabranch.views.selection.inputs.events_of", _without_the_first)
        catch_up(spark, delays)
    assert [row["flights"] for row in rows_of(settings)] == [1, 1, 1]
    before = head(settings)

    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.partitions, ended.equal, ended.mended) == (PUBLISHED, 2, 2, 1)
    assert head(settings).version == before.version + 1
    assert (head(settings).note.cut, head(settings).note.extra["replay"]) == (landing.cut, RUN)
    assert [row["flights"] for row in rows_of(settings)] == [row["flights"] for row in right] == [1, 2, 1]

    landing.land([departed("02 07:30"), departed("02 07:40")])
    catch_up(spark, delays)
    assert [row["flights"] for row in rows_of(settings)] == [1, 2, 3]
    assert head(settings).note.batch.partition(":")[0] == checkpoint_id(live_checkpoint(settings))
    assert all(c.equal for c in certify(spark, delays, [date(2013, 1, 1), date(2013, 1, 2)]))
    assert left_over(settings) == []
    assert replay(spark, asked(settings)) == ended, "asked again, it only says how it ended"


def _without_the_first(landed: Any, view: View, *, late: bool) -> Any:
    return landed.where("decision = 'valid' AND type = 'flight.departed' AND NOT late AND epoch > 1")


def test_rows_that_are_right_keep_what_readers_know_them_by(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    """A replay takes larger steps: by its own epochs a batch half that was published in between would seem old."""
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    landing.land([departed("02 09:00")])
    catch_up(spark, delays)
    before, around = rows_of(settings), elsewhere(settings)
    assert {row[CHANGED] for row in before} == {3, 4}

    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.mended) == (PUBLISHED, 0)
    assert rows_of(settings) == before
    assert elsewhere(settings) == around, "it touches nothing but the table that it replaces"

    catch_up(spark, delays)
    adopted = checkpoint_id(live_checkpoint(settings))
    live_checkpoint(settings).unlink()  # a person deletes it: the stream builds its table again from landing
    landing.land([departed("02 09:10")])
    catch_up(spark, delays)
    assert adopted != checkpoint_id(live_checkpoint(settings)) == head(settings).note.batch.partition(":")[0]
    assert len(rows_of(settings)) == len(before)


def elsewhere(settings: Settings) -> dict[str, int]:
    """Every file that is no replay's and not of the speed table, with the time of its last change."""
    own = (
        VersionRef(settings, DELAYS.name, 1).speed_table,
        str(settings.home / "control" / "replays"),
        str(settings.locks),
    )
    files = (path for path in settings.home.rglob("*") if path.is_file())
    kept = [p for p in files if not str(p).startswith(own) and p.parts[len(settings.home.parts)] != "tmp"]
    return {str(path): path.stat().st_mtime_ns for path in kept if settings.checkpoints / "replay" not in path.parents}


@pytest.mark.parametrize(
    ("view", "column", "stranger"),
    [
        pytest.param(DELAYS, "flights", False, id="days", marks=pytest.mark.sweep),
        pytest.param(DELAYS, "flights", True, id="days-by-somebody-else"),
        pytest.param(AIRCRAFT, "last_airport", False, id="kappa"),
        pytest.param(AIRCRAFT, "last_airport", True, id="kappa-by-somebody-else", marks=pytest.mark.sweep),
    ],
)
def test_a_table_that_is_wrong_is_replaced(
    spark: SparkSession, settings: Settings, landing: Landing, view: View, column: str, stranger: bool
) -> None:
    handle = ViewHandle(settings, view, FLIGHTS)
    catch_up(spark, handle)
    right = rows_of(settings, view)
    spoil(settings, view, column, stranger=stranger)
    assert rows_of(settings, view) != right

    ended = replay(spark, asked(settings, view))
    assert (ended.phase, ended.mended) == (PUBLISHED, 1)
    assert [{**r, CHANGED: 0} for r in rows_of(settings, view)] == [{**r, CHANGED: 0} for r in right]
    landing.land([departed("03 05:10")])
    catch_up(spark, handle)
    assert all(c.equal for c in certify(spark, handle, [date(2013, 1, n) for n in (1, 2, 3)]))


def test_a_running_stream_hands_over(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    query = start(spark, delays)
    try:
        _until(lambda: query.sink.cut.covers(landing.cut))
        assert replay(spark, asked(settings)).phase == PUBLISHED
        landing.land([departed("02 07:30")])
        _until(lambda: not query.isActive)
        assert isinstance(query.failure, TryAgain)
        assert query.failure.code == "REPLAYED"
        assert head(settings).note.cut.epoch("flights") == 3
    finally:
        query.stop()
    again = start(spark, delays)
    try:
        _until(lambda: again.sink.cut.covers(landing.cut))
    finally:
        again.stop()
    assert [row["flights"] for row in rows_of(settings)] == [1, 2, 2]


def _until(true: Callable[[], bool], seconds: float = 60) -> None:
    import time

    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_days_are_replaced_under_the_live_tables_own_note(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    landing.land([departed("03 07:00")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    right, note = rows_of(settings), head(settings).note
    spoil(settings, DELAYS, "flights")

    ended = replay(spark, asked(settings, days=(date(2013, 1, 1), date(2013, 1, 2))))
    assert (ended.phase, ended.partitions, ended.mended) == (PUBLISHED, 2, 1)
    assert 0 < ended.cores_used <= 1.1, "only what it has used itself: its engine is older"
    assert [{**r, CHANGED: 0} for r in rows_of(settings)] == [{**r, CHANGED: 0} for r in right]
    assert (head(settings).note.batch, head(settings).note.cut) == (note.batch, note.cut)
    landing.land([departed("03 07:30")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert [row["flights"] for row in rows_of(settings)] == [1, 2, 1, 2]
    assert left_over(settings) == []


def test_days_that_changed_behind_the_replays_cut_stay(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_ROUNDS", 1)
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    with pytest.raises(TryAgain) as error:
        replay(spark, asked(settings, days=(date(2013, 1, 2),), until={"flights": 2}))
    assert error.value.code == "DAYS_TOUCHED"
    assert "replay" not in head(settings).note.extra


def test_days_that_changed_behind_the_replays_cut_are_replayed_up_to_the_readers_and_certified_again(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    landing.land([departed("02 07:20")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    right = rows_of(settings)
    landing.land([departed("02 07:30")])

    ended = replay(spark, asked(settings, days=(date(2013, 1, 2),), until={"flights": 2}))

    assert (ended.phase, ended.certified, ended.mended) == (PUBLISHED, "flights@4", 0)
    assert [{**r, CHANGED: 0} for r in rows_of(settings)] == [{**r, CHANGED: 0} for r in right]
    assert head(settings).note.extra["replay"] == RUN
    assert left_over(settings) == []


def test_what_is_not_equal_is_discarded_without_a_trace(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    before, files = head(settings), _files(settings)

    def spoilt(spark: Any, view: View, table: SpeedTable, live: str, days: Any) -> int:
        found = open_table(table.uri)
        assert found is not None
        rows = found.to_pyarrow_table().slice(0, 1)
        at = rows.schema.get_field_index("flights")
        wrong = rows.set_column(at, "flights", pa.array([7], rows.field(at).type))
        upsert(found, wrong, view.key, table.newest().note, "partition_date")
        return 0

    monkeypatch.setattr(runner, "keep_live_epochs", spoilt)
    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.partitions, ended.equal) == (REFUSED, 2, 1)
    assert "1 of 2 certificates differ at flights@3" in ended.said
    assert (head(settings), left_over(settings), _files(settings)) == (before, [], files)


def _files(settings: Settings) -> list[str]:
    """Every file of the tables and checkpoints."""
    roots = (settings.lake, settings.checkpoints)
    return sorted(str(path) for root in roots for path in root.rglob("*") if path.is_file())


def test_cancelled_it_leaves_nothing(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    before, files = head(settings), _files(settings)
    update_control(settings, ReplayState(DELAYS.name, 1, RUN), lambda _: ControlRequest(UNHURRIED, "bert"))
    ended = replay(spark, asked(settings))
    assert ended.phase == CANCELLED
    assert (head(settings), left_over(settings), _files(settings)) == (before, [], files)


STEPS = ["_keep_live_epochs", "_certify", "_catch_up", "_show", "_end"]
ALWAYS = {("_show", False), ("_show", True)}
"""The steps whose kills are in every test run; those behind them are like them."""


class _Killed(BaseException):
    pass


def kills() -> Iterator[Any]:
    for step, after in product(STEPS, (False, True)):
        marks = () if (step, after) in ALWAYS else pytest.mark.sweep
        yield pytest.param(step, after, marks=marks, id=f"{'behind' if after else 'before'}{step}")


@pytest.mark.parametrize(("step", "after"), list(kills()))
def test_killed_before_or_after_any_step_it_goes_on(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    right = rows_of(settings)
    spoil(settings, DELAYS, "flights")
    real = getattr(runner._Replay, step)

    def killed(self: Any, *args: Any) -> Any:
        if after:
            real(self, *args)
        raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr(runner._Replay, step, killed)
        with pytest.raises(_Killed):
            replay(spark, asked(settings))
    landing.land([departed("02 07:30")])

    assert replay(spark, asked(settings)).phase == PUBLISHED
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert [row["flights"] for row in rows_of(settings)] == [right[0]["flights"], right[1]["flights"], 2]
    assert [c.note.extra.get("replay") for c in _commits(settings)].count(RUN) == 1
    assert left_over(settings) == []


def _commits(settings: Settings) -> list[Commit]:
    from anabranch.lake import commit_history

    return list(commit_history(VersionRef(settings, DELAYS.name, 1).speed_table))


@pytest.mark.parametrize(
    "given", [pytest.param(1, marks=pytest.mark.sweep), 2, pytest.param(3, marks=pytest.mark.sweep)]
)
def test_killed_in_the_middle_of_history_it_goes_on_there(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch, given: int
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    right, slices = rows_of(settings), []
    monkeypatch.setattr("anabranch.change.replay._feed._FIRST_RECORDS", 1)
    monkeypatch.setattr("anabranch.change.replay._feed.next_size", lambda *_: 1)
    real = runner._Replay._rest

    def killed(self: Any, *args: Any) -> None:
        slices.append(args[1].cut)
        if len(slices) == given:
            raise _Killed
        real(self, *args)

    monkeypatch.setattr(runner._Replay, "_rest", killed)
    with pytest.raises(_Killed):
        replay(spark, asked(settings))
    known = read_state(VersionRef(settings, DELAYS.name, 1), RUN)
    assert known is not None
    assert (known.phase, known.ended, known.done) == ("streaming", False, [1, 3, 4][given - 1])

    with pytest.raises(Conflict) as error:
        replay(spark, replace(asked(settings), run="another"))
    assert error.value.code == "REPLAY_RUNNING"
    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.done, ended.total, ended.mended) == (PUBLISHED, 4, 4, 0)
    assert rows_of(settings) == right
    cuts = [cut.epoch("flights") for cut in slices]
    assert sorted(set(cuts)) == [1, 2, 3], "whole epochs, each in its turn"


def test_a_live_stream_that_is_ahead_is_followed(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More lands and is read while the replay certifies: it goes on until readers are nowhere ahead."""
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    real, again = runner._Replay._show, list[Cut]()

    def ahead(self: Any) -> None:
        if not again:
            again.append(landing.land([departed("02 07:30")]))
            catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
        real(self)

    monkeypatch.setattr(runner._Replay, "_show", ahead)
    assert replay(spark, asked(settings)).phase == PUBLISHED
    assert head(settings).note.cut == landing.cut
    assert [row["flights"] for row in rows_of(settings)] == [1, 2, 2]


@pytest.mark.sweep
def test_whose_definition_has_changed_is_not_replayed_into(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    before = head(settings)
    with pytest.raises(AnabranchError) as error:
        replay(spark, asked(settings, replace(DELAYS, fingerprint="another")))
    assert error.value.code == "DEFINITION_CHANGED"
    assert head(settings) == before


def test_a_view_that_fails_says_so(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))

    def broken(departed: Any) -> Any:
        from pyspark.sql import functions as F

        rows = DELAYS.function(departed)
        return rows.withColumn("flights", F.raise_error(F.lit("on purpose")).cast("long") + F.col("flights"))

    with pytest.raises(BrokenState) as error:
        replay(spark, asked(settings, replace(DELAYS, function=broken)))
    assert "on purpose" in str(error.value)
