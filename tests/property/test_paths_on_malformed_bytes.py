"""Whatever bytes come between the events of a log: each record is landed once, as a naive reader decides about it, and
both paths of every kind of view are equal.

A log is named by its seed: a failure says the call that makes the same one again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import StreamLocation, catch_up, start
from anabranch.contracts import Topic
from anabranch.core.engine.spark import small
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.testing._end_to_end import with_fault
from anabranch.testing._engine import SmallSessions
from anabranch.testing._evaluator import Case, Evaluator
from anabranch.testing._rows import bag, differences, plain
from anabranch.testing._scenario import Fault
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.registry import sources_of
from pyspark.errors import StreamingQueryException
from support.landed_bytes import landing_of
from support.landed_sample import ALL_DECLARED, CONTRACTS, gallery, sample_views
from support.naive_reader import Decided, Reader, contracts_of
from support.random_byte_logs import ByteLog, drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.timeout(1_800)]

VIEWS = {view.name: view for view in (*sample_views(), *gallery())}
_ROW = re.compile(r"^\| ([^|]+) \| `(\w+)` \| [^|]+ \|$", re.MULTILINE)
KINDS = dict(_ROW.findall((project_root() / "docs" / "kinds-of-views.md").read_text()))
"""The kinds of views, as the page names them, each with its example."""
NAMES = list(dict.fromkeys(KINDS.values()))
ALWAYS = {"turns": 2}
"""State with timers: one log of it in every run of the tests. The others, and
more logs, each for two views and sliced in more ways, are left to `make sweep`."""
LOGS_EACH = 5
EACH = [
    *(pytest.param(name, [number], id=name) for name, number in ALWAYS.items()),
    *(pytest.param(name, range(LOGS_EACH), id=f"{name}-{LOGS_EACH}", marks=pytest.mark.sweep) for name in NAMES),
]
DAY = timedelta(days=1)


def test_every_view_of_the_gallery_is_of_a_kind_and_there_are_a_hundred_logs() -> None:
    assert {view.name for view in gallery()} <= set(NAMES) <= set(VIEWS)
    assert len(NAMES) * LOGS_EACH >= 100


def test_the_logs_have_what_makes_them_hard() -> None:
    counted = Counter[str]()
    for log in (drawn(views_of(name), ALL_DECLARED, seed_of(name, n)) for name in NAMES for n in range(LOGS_EACH)):
        found = [each for decisions in decided(log).values() for each in decisions.values()]
        counted.update(each.decision for each in found)
        counted.update("late" for each in found if each.late)
        assert {"valid", "quarantined"} <= {each.decision for each in found}, log.seed
    assert counted["valid"] > 2_000
    assert min(counted[what] for what in ("quarantined", "late", "duplicate")) > 100, counted
    assert counted["tombstone"] > 20, counted


@pytest.mark.parametrize(("name", "numbers"), EACH)
def test_both_paths_are_equal_whatever_bytes_are_between_the_events(
    spark: SparkSession, tmp_path: Path, name: str, numbers: Sequence[int]
) -> None:
    views, rows, every = views_of(name), 0, len(numbers) > 1
    for number in numbers:
        log = drawn(views, ALL_DECLARED, seed_of(name, number))
        commits = Random(log.seed).choice([0, 50_000])
        settings = load_settings(home=tmp_path / str(number), shuffle_partitions=1, small_commit_rows=commits)
        try:
            served = views if every else views[:1]
            streams = landed_and_streamed(spark, settings, log, served, every_epoch=every)
            landed = held_to_the_reader(settings, log)
            for view, tables in streams.items():
                equal_slicings(view, tables)
                certified = equal_paths(spark, settings, log, view, landed)
                rows += certified if view.name == name else 0
        except Exception as error:
            error.add_note(
                f"the log: drawn(views_of({name!r}), ALL_DECLARED, {log.seed!r}), small_commit_rows={commits}"
            )
            raise
    assert rows, f"{name} has no row in any of these logs"


def views_of(name: str) -> list[View]:
    """The view, and the next one that needs no more topics: one log serves both."""
    at, topics = NAMES.index(name), topics_of(VIEWS[name])
    others = (VIEWS[other] for other in (*NAMES[at + 1 :], *NAMES[:at]))
    return [VIEWS[name], next(other for other in others if topics_of(other) <= topics)]


def seed_of(name: str, number: int) -> str:
    return f"{name}/{number}"


def topics_of(view: View) -> set[str]:
    return {topic.name for topic in sources_of(view, ALL_DECLARED).each}


def landed_and_streamed(
    spark: SparkSession, settings: Settings, log: ByteLog, views: Sequence[View], *, every_epoch: bool
) -> dict[View, dict[str, str]]:
    """Lands the log, epoch by epoch, while streams catch up now and then. The tables of each view, by how its stream
    was sliced."""
    live = {view: {"with what befalls it": VersionRef(settings, view.name, view.version).speed_table} for view in views}
    beside = [Beside(settings, view, "at once") for view in views]
    steady = [Beside(settings, view, "epoch by epoch") for view in views[:1] if every_epoch]
    small_spark = cast("SparkSession", SmallSessions(spark))
    with ExitStack() as stack:
        landings = {
            topic.name: stack.enter_context(landing_of(spark, settings, topic, log.of(topic.name)))
            for topic in log.topics.each
        }
        for epoch in log.epochs:
            for topic, records in epoch.records.items():
                landings[topic].land(records)
            for view in views if epoch.then is not None else ():
                with with_fault(VersionRef(settings, view.name, view.version), epoch.then or Fault.GO_ON):
                    catch_up(small_spark, ViewHandle(settings, view, sources_of(view, ALL_DECLARED)))
            for stream in steady:
                stream.catch_up(small_spark)
    for stream in beside:
        stream.catch_up(small_spark)
    for view in views if log.epochs[-1].then is not Fault.GO_ON else ():
        catch_up(small_spark, ViewHandle(settings, view, sources_of(view, ALL_DECLARED)))
    for stream in (*beside, *steady):
        live[stream.view][stream.how] = stream.place.table
    return live


class Beside:
    """Another stream of a view over the same landing, into a table of its own."""

    def __init__(self, settings: Settings, view: View, how: str) -> None:
        self.view, self.how, self._settings = view, how, settings
        self._topics = sources_of(view, ALL_DECLARED)
        landing = {topic.name: landing_table(settings, topic.name) for topic in self._topics.each}
        folder = settings.home / "beside" / how.replace(" ", "-") / view.name
        self.place = StreamLocation(landing, str(folder / "table"), folder / "checkpoint")

    def catch_up(self, spark: SparkSession) -> None:
        query = start(
            spark, ViewHandle(self._settings, self.view, self._topics), available_now=True, location=self.place
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise (query.failure or error) from None


def decided(log: ByteLog) -> dict[str, dict[tuple[int, int], Decided]]:
    """What the naive reader says of each record, by topic, partition and offset."""
    readers = {topic.name: reader_of(topic) for topic in log.topics.each}
    found: dict[str, dict[tuple[int, int], Decided]] = {name: {} for name in readers}
    for epoch in log.epochs:
        for topic, records in epoch.records.items():
            found[topic] |= readers[topic].epoch(records)
    return found


def reader_of(topic: Topic) -> Reader:
    every = contracts_of([*CONTRACTS.glob("*.json"), *(CONTRACTS / "gallery").glob("*.json")])
    known = {name: contract for name, contract in every.items() if name in topic.event_types}
    times = (topic.allowed_lateness, topic.duplicate_horizon, topic.future_bound, topic.earliest_year)
    return Reader(known, *times)


def held_to_the_reader(settings: Settings, log: ByteLog) -> list[dict[str, Any]]:
    """The landed rows: each record is landed once, with its bytes, and by the reader's decision."""
    landed = []
    for topic in log.topics.each:
        table = open_table(landing_table(settings, topic.name))
        committed = latest_commit(landing_table(settings, topic.name))
        assert table is not None
        assert committed is not None
        rows, sent = table.to_pyarrow_table().to_pylist(), log.of(topic.name)
        found = {(row["partition"], row["offset"]): row for row in rows}
        assert len(rows) == len(found) == len(sent)
        assert {at: row["value"] for at, row in found.items()} == {(r.partition, r.offset): r.value for r in sent}
        headers = {at: row["headers"] and [(h["key"], h["value"]) for h in row["headers"]] for at, row in found.items()}
        assert headers == {(r.partition, r.offset): r.headers for r in sent}
        ends = Counter(record.partition for record in sent)
        assert committed.note.cut.positions[topic.name].offsets == {p: ends[p] for p in range(topic.partitions)}
        expected = decided(log)[topic.name]
        wrong = [
            f"{topic.name}/{at[0]}@{at[1]} {row['value']!r:.600}\n  landed: {told} ({row['reason']})\n"
            f"  reader: {expected[at]}"
            for at, row in sorted(found.items())
            if (told := as_decided(topic, row)) != expected[at]
        ]
        assert not wrong, "\n".join(wrong)
        landed += rows
    return landed


def as_decided(topic: Topic, row: Mapping[str, Any]) -> Decided:
    if row["decision"] != "valid":
        return Decided(row["decision"])
    data = {name: value for name, value in row[topic.newest(row["type"]).column].items() if value is not None}
    return Decided("valid", row["late"], row["event_time"], row["event_id"], row["source"], row["type"], data)


def equal_slicings(view: View, tables: Mapping[str, str]) -> None:
    """However its stream was sliced, the view's rows are the same."""
    rows = {how: stored(uri) for how, uri in tables.items()}
    columns = columns_of([row for each in rows.values() for row in each])
    bags = {how: bag(each, columns) for how, each in rows.items()}
    first, *others = bags
    for other in others:
        wrong = [f"{other}: {bags[other] - bags[first]}", f"{first}: {bags[first] - bags[other]}"]
        assert bags[other] == bags[first], "\n  ".join([f"{view.name}, {columns}", *wrong])


def columns_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({name for row in rows for name in row})


def stored(uri: str) -> list[dict[str, Any]]:
    table = open_table(uri)
    return rows_in(file.removeprefix("file://") for file in (table.file_uris() if table is not None else []))


def rows_in(files: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Through Parquet itself: a process that has used ``to_pyarrow_dataset`` sometimes aborts when it exits."""
    return [row for file in files for row in plain(pq.read_table(file, partitioning=None))]


def equal_paths(
    spark: SparkSession, settings: Settings, log: ByteLog, view: View, landed: Sequence[dict[str, Any]]
) -> int:
    """Certificates of all days that the log reaches; how many rows they are about. Batch is the function of all valid
    events, also where late ones are among them, which certificates say nothing of."""
    topics, own = sources_of(view, ALL_DECLARED), small(spark)
    if view.kappa:
        found = certify(own, ViewHandle(settings, view, topics), [])
    else:
        build = rebuild(own, ViewHandle(settings, view, topics), days_of(log, view), "malformed")
        found = certify(own, ViewHandle(settings, view, topics), days_of(log, view), StagedBuild.of(settings, build))
        folder = Path(VersionRef(settings, view.name, view.version).batch_table)
        whole = Evaluator(spark, view, topics).compute({"whole": Case(landed)})["whole"]
        assert not isinstance(whole, Exception), whole
        built = rows_in(folder / file.path for file in build.files)
        assert not (wrong := differences(whole, built, view.key, columns_of([*whole, *built]))), f"{view.name}: {wrong}"
    unequal = [f"{c.partition}: speed {c.speed}, expected {c.expected}" for c in found if not c.equal]
    assert not unequal, f"{view.name}: " + "; ".join(unequal)
    return sum(c.speed.rows for c in found)


def days_of(log: ByteLog, view: View) -> list[date]:
    """An event makes rows of days before its own where they look ahead, and of days behind it where they look back."""
    times = [each.event_time for decisions in decided(log).values() for each in decisions.values() if each.event_time]
    back, ahead = -(-view.lookback // DAY), -(-view.lookahead // DAY)
    return sorted({time.date() + n * DAY for time in times for n in range(-ahead - 1, back + 2)})
