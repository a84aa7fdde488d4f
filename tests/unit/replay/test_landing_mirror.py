"""Landing given out commit by commit: the same table, as it was, with the schema that it has today."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from anabranch.change.replay import landing_mirror
from anabranch.change.replay._feed import LandingFeed
from anabranch.change.replay._log_mirror import DIFFERS, LogMirror, TopicSource
from anabranch.change.replay.landing_mirror import LandedCommits, Mirror
from anabranch.core.errors import AnabranchError, BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commit_history, latest_commit
from anabranch.lake.commits import widen
from anabranch.lake.cut import Cut, Position
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, log_names, read_commit
from deltalake import DeltaTable
from support.landed_sample import DECLARED, FLIGHTS, Event, Landing
from support.maintained_platform import shorten

pytestmark = pytest.mark.unit
START = datetime(2013, 1, 1, 5, tzinfo=UTC)


def departed(number: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": number, "dep_delay": 0, "tailnum": "N1"}
    return Event("flight.departed", START + timedelta(minutes=number), f"d{number}", data)


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    found = Landing(Settings(home=tmp_path / "home"))
    found.land([departed(1)], [departed(2), departed(3)], [departed(4)])
    return found


def flights_in(uri: str) -> list[int]:
    table = pa.table(DeltaTable(uri).to_pyarrow_table(columns=["epoch"]))
    return sorted(table["epoch"].to_pylist())


def committed_at(landing: Landing, version: int, time: int) -> None:
    """Let a commit say another time of itself."""
    log = Path(landing.uri) / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = time
    log.write_text("\n".join(map(json.dumps, lines)))


def test_it_is_the_table_as_it_was_under_the_same_id(landing: Landing, tmp_path: Path) -> None:
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    assert (mirror.released, flights_in(mirror.uri)) == (0, [])
    for version, epochs in ((1, [1]), (2, [1, 2, 2]), (3, [1, 2, 2, 3])):
        mirror.release(version)
        assert (flights_in(mirror.uri), DeltaTable(mirror.uri).version()) == (epochs, version)
        committed = latest_commit(mirror.uri)
        assert committed is not None
        assert committed == next(c for c in commit_history(landing.uri) if c.version == version)
    assert DeltaTable(mirror.uri).metadata().id == DeltaTable(landing.uri).metadata().id


def test_opened_again_it_goes_on(landing: Landing, tmp_path: Path) -> None:
    Mirror(landing.uri, tmp_path / "mirror").release(2)
    again = Mirror(landing.uri, tmp_path / "mirror")
    assert again.released == 2
    landing.land([departed(5)])
    again.release(4)
    assert flights_in(again.uri) == [1, 2, 2, 3, 4]


@pytest.mark.parametrize("ended", range(1, 7))
def test_ended_before_any_of_its_links_it_can_be_read_and_goes_on(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    """The kernel of Delta refuses a table with the checksum of a version that isn't there."""
    folder, links, link = tmp_path / "mirror", list[str](), os.link

    def ends(source: Path, target: Path) -> None:
        links.append(target.name)
        if len(links) == ended:
            raise KeyboardInterrupt
        link(source, target)

    mirror = Mirror(landing.uri, folder)
    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr("os.link", ends)
        mirror.release(3)
    assert {Path(name).suffix for name in links} <= {".json", ".crc"}
    again = Mirror(landing.uri, folder)
    assert DeltaTable(again.uri).version() == again.released
    again.release(3)
    assert flights_in(again.uri) == [1, 2, 2, 3]


def test_nothing_of_landing_is_changed_or_copied(landing: Landing, tmp_path: Path) -> None:
    before = {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in Path(landing.uri).rglob("*") if p.is_file()}
    Mirror(landing.uri, tmp_path / "mirror").release(3)
    assert {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in before} == before
    assert not [p for p in (tmp_path / "mirror").iterdir() if p.is_dir() and not p.is_symlink() and p.name[0] != "_"]


def test_it_has_todays_schema_from_the_start_and_says_nothing_of_it_on_the_way(
    landing: Landing, tmp_path: Path
) -> None:
    """A stream stops where its table's schema changes, and a function needs the fields of today."""
    widen(landing.table, pa.schema([("grown", pa.int64())]), CommitMetadata("landing/flights", "grow", landing.cut))
    landing.land([departed(5)])
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    assert "grown" in DeltaTable(mirror.uri).schema().to_arrow().names
    mirror.release(5)
    logs = (Path(mirror.uri) / "_delta_log").glob("*.json")
    assert sum("metaData" in path.read_text() for path in logs) == 1
    assert flights_in(mirror.uri) == [1, 2, 2, 3, 4]

    widen(landing.table, pa.schema([("later", pa.int64())]), CommitMetadata("landing/flights", "grow", landing.cut))
    mirror.release(6)
    assert "later" in DeltaTable(mirror.uri).schema().to_arrow().names, "what grows meanwhile is told, as to any stream"


def test_what_was_compacted_and_taken_away_comes_at_once(landing: Landing, tmp_path: Path) -> None:
    landing.table.optimize.compact()
    landing.table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    landing.table.update_incremental()
    landing.land([departed(5)])
    compacted = next(e["version"] for e in landing.table.history() if e["operation"] == "OPTIMIZE")
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    assert (mirror.released, flights_in(mirror.uri)) == (compacted, [1, 2, 2, 3])
    mirror.release(landing.table.version())
    assert flights_in(mirror.uri) == [1, 2, 2, 3, 4]


def test_it_begins_where_the_kept_log_does(landing: Landing, tmp_path: Path) -> None:
    landing.table.create_checkpoint()
    landing.land([departed(5)])
    for version in range(4):
        (Path(landing.uri) / "_delta_log" / f"{version:020d}.json").unlink()
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    assert (mirror.released, flights_in(mirror.uri)) == (4, [1, 2, 2, 3, 4])


@pytest.mark.parametrize("begun", [False, True])
def test_commits_that_were_set_aside_are_given_out_too(landing: Landing, tmp_path: Path, begun: bool) -> None:
    landing.land([departed(5)])
    slow, commits = Mirror(landing.uri, tmp_path / "mirror"), LandedCommits(landing.uri)
    slow.release(1)
    before = list(LandedCommits(landing.uri).read_new())
    shorten(landing.uri)
    assert not (Path(landing.uri) / "_delta_log" / f"{2:020d}.json").exists()
    mirror = slow if begun else Mirror(landing.uri, tmp_path / "another")
    for version, epochs in ((2, [1, 2, 2]), (4, [1, 2, 2, 3, 4])):
        mirror.release(version)
        assert flights_in(mirror.uri) == epochs
    assert list(commits.read_new()) == before


def set_aside(landing: Landing, back: bool = False) -> None:
    """What landing does meanwhile: its older commits move to the other folder, or back."""
    log, older = Path(landing.uri) / LOG, Path(landing.uri) / ARCHIVE
    older.mkdir(exist_ok=True)
    for path in list((older if back else log).iterdir()):
        path.rename((log if back else older) / path.name)


@pytest.mark.parametrize("back", [False, True])
def test_a_commit_that_is_set_aside_while_it_is_linked_is_found(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    if back:
        set_aside(landing)

    moves, link = [None, True] if back else [False], os.link

    def meanwhile(source: Path, target: Path) -> None:
        if moves and (moved_back := moves.pop(0)) is not None:
            set_aside(landing, moved_back)
        link(source, target)

    monkeypatch.setattr(os, "link", meanwhile)
    mirror.release(3)
    set_aside(landing, back=True)
    assert flights_in(mirror.uri) == [1, 2, 2, 3]


def test_files_that_are_set_aside_while_they_are_listed_are_in_the_mirror(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listed are the older ones first: one that moves there meanwhile is in neither list."""
    landing.table.create_checkpoint()
    landing.land([departed(5)], [departed(6)])
    for version in range(4):
        (Path(landing.uri) / LOG / f"{version:020d}.json").unlink()
    calls = []

    def listed(table: Path) -> list[tuple[int, str]]:
        found = list(log_names(table))
        calls.append(found)
        if len(calls) == 2:
            return [(version, name) for version, name in found if ".checkpoint" not in name]
        return found

    monkeypatch.setattr(landing_mirror, "log_names", listed)
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    mirror.release(5)
    assert flights_in(mirror.uri) == [1, 2, 2, 3, 4, 5]


def test_a_commit_that_is_gone_is_an_error_and_no_empty_one(landing: Landing, tmp_path: Path) -> None:
    mirror = Mirror(landing.uri, tmp_path / "mirror")
    text = (Path(landing.uri) / LOG / f"{1:020d}.json").read_text()
    (Path(landing.uri) / LOG / f"{1:020d}.json").unlink()
    with pytest.raises(FileNotFoundError):
        mirror.release(2)
    (Path(landing.uri) / LOG / f"{1:020d}.json").write_text(text)
    mirror.release(2)
    assert flights_in(mirror.uri) == [1, 2, 2]


def test_without_a_commit_there_is_nothing_to_give(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    with pytest.raises(BrokenState) as error:
        Mirror(str(tmp_path / "landing"), tmp_path / "mirror")
    assert error.value.code == "LANDING_GONE"


def test_commits_are_read_once_with_what_they_landed(landing: Landing) -> None:
    commits = LandedCommits(landing.uri)
    assert [(c.version, c.rows, c.cut.epoch("flights") if c.cut else None) for c in commits.read_new()] == [
        (0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 1, 3),
    ]  # fmt: skip
    assert list(commits.read_new()) == []
    landing.land([departed(5)])
    assert [c.version for c in commits.read_new()] == [4]


def test_slices_are_whole_epochs_up_to_a_size_and_an_end(landing: Landing, tmp_path: Path) -> None:
    slices = LandingFeed({"flights": landing.uri}, tmp_path / "mirrors", {"flights": 3})
    landing.land([departed(5)])
    slices._size = 2
    assert (slices.total, slices.done) == (4, 0)
    given = []
    while slices.poll():
        given.append((slices.release_next().cut.epoch("flights"), slices.done))
    assert given == [(1, 1), (2, 3), (3, 4)]
    assert flights_in(slices.uris["flights"]) == [1, 2, 2, 3]
    again = LandingFeed({"flights": landing.uri}, tmp_path / "mirrors", {"flights": 3})
    assert (again.done, again.total, again.poll()) == (4, 4, False)


def test_an_end_that_is_moved_gives_what_is_behind_it(landing: Landing, tmp_path: Path) -> None:
    slices = LandingFeed({"flights": landing.uri}, tmp_path / "mirrors", {"flights": 2})
    landing.land([departed(5)])
    while slices.poll():
        slices.release_next()
    slices.extend(landing.cut)
    landing.land([departed(6)])
    given = []
    while slices.poll():
        given.append(slices.release_next().cut.epoch("flights"))
    assert (given[-1], slices.done, slices.total) == (4, 5, 5)
    slices.extend(Cut({"flights": Position(1, {})}))
    assert (slices.poll(), slices.until) == (False, {"flights": 4}), "an end never moves back"


def test_nothing_behind_the_end_is_given_not_even_by_a_commit_that_lands_nothing(
    landing: Landing, tmp_path: Path
) -> None:
    landing.table.optimize.compact()
    landing.table.update_incremental()
    slices = LandingFeed({"flights": landing.uri}, tmp_path / "mirrors", {"flights": 2})
    while slices.poll():
        slices.release_next()
    assert flights_in(slices.uris["flights"]) == [1, 2, 2]


def test_a_clock_that_went_back_turns_no_epochs_round(landing: Landing, tmp_path: Path) -> None:
    for version, time in ((1, 3_000), (2, 2_000), (3, 1_000)):
        committed_at(landing, version, time)
    slices = LandingFeed({"flights": landing.uri}, tmp_path / "mirrors")
    slices._size = -1
    given = []
    while slices.poll():
        given.append(slices.release_next().cut.epoch("flights"))
    assert given == [0, 1, 2, 3][-len(given) :]
    assert flights_in(slices.uris["flights"]) == [1, 2, 2, 3]


def test_slices_of_several_topics_come_in_the_order_of_their_commits(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    first, second = Landing(settings), Landing(settings, DECLARED.topic("weather"))
    for landing in (first, second):
        committed_at(landing, 0, 0)
    for time, landing in enumerate((first, second, second, first), 1):
        landing.land([])
        committed_at(landing, landing.epoch, time)  # they are made within a millisecond
    slices = LandingFeed({"flights": first.uri, "weather": second.uri}, tmp_path / "mirrors")
    slices._size = -1
    seen = []
    while slices.poll():
        cut = slices.release_next().cut
        seen.append((cut.epoch("flights"), cut.epoch("weather")))
    assert [each for each in seen if each != (0, 0)][-4:] == [(1, 0), (1, 1), (1, 2), (2, 2)]
    assert FLIGHTS.name == "flights"


class Shown(Mirror):
    """A mirror that only counts."""

    def __init__(self, folder: Path) -> None:
        self.released, self.uri = 3, str(folder)

    def release(self, version: int) -> None:
        self.released = version


def test_a_month_of_commits_is_not_held_at_once(tmp_path: Path) -> None:
    """At one epoch a second it is 2.6 million: a replay of them held 2.7 GB."""
    log, many = tmp_path / LOG, 4_000
    log.mkdir()
    for version in range(many):
        cut = Cut({"flights": Position(version, {0: version, 1: 5 * version})})
        extra = {"rows": 2, "watermark_us": version * 1_000_000}
        note = CommitMetadata("landing/flights", str(version), cut, extra=extra).to_text()
        info = {"commitInfo": {"timestamp": version, "userMetadata": note}}
        (log / f"{version:020d}.json").write_text(json.dumps(info, separators=(",", ":")))
    feeds = partial(LandingFeed, {"flights": str(tmp_path)}, tmp_path, mirror=lambda *_: Shown(tmp_path))
    # pathlib interns names: the table of all interned texts may grow, at once, by megabytes of other tests' texts.
    interned = [sys.intern(path.name) for path in log.iterdir()]
    tracemalloc.start()
    try:
        held, peak = tracemalloc.get_traced_memory()
        assert sum(commit.rows for commit in LandedCommits(str(tmp_path)).read_new()) == 2 * many
        feed = feeds()
        feed._size = 50
        assert (feed.total, feed.done) == (2 * many, 8)
        slices = 0
        while feed.poll():
            feed.release_next()
            slices += 1
        held, peak = (each - held for each in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert (feed.done, slices, feed.cut.epoch("flights")) == (2 * many, (many - 4) / 25 // 1 + 1, many - 1)
    assert feed.event_seconds == many - 1
    assert peak < 300 * many, "only the names of a list, and a commit at a time"
    assert held < 100_000
    assert len(interned) == many


class Decoded(LogMirror):
    """One whose files say which versions' records they hold; ``kills``: before which commit it is killed."""

    kills = 0

    def _decode_again(self, versions: Iterable[int]) -> list[dict[str, Any]]:
        path = "-".join(map(str, versions))
        return [{"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}]

    def _commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        if version == self.kills:
            raise KeyboardInterrupt
        super()._commit(version, actions)

    def held(self) -> dict[int, list[str]]:
        """The files that each commit adds."""
        return {n: [a["add"]["path"] for a in self._shown(n) if "add" in a] for n in range(1, self.released + 1)}

    def _shown(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in read_commit(self._folder, version).splitlines()]


def decoded(landing: Landing, folder: Path) -> Decoded:
    return Decoded(landing.uri, folder, TopicSource(None, landing.settings, FLIGHTS))  # type: ignore[arg-type]


def test_a_slice_shows_its_rows_with_its_last_epoch(landing: Landing, tmp_path: Path) -> None:
    mirror = decoded(landing, tmp_path / "mirror")
    mirror.release(2)
    mirror.release(3)
    assert mirror.held() == {1: [], 2: ["1-2"], 3: ["3"]}


@pytest.mark.parametrize("killed", [1, 2, 3])
@pytest.mark.parametrize("until", [(3,), (2, 3)], ids=str)
def test_a_slice_that_was_killed_shows_each_record_once(
    landing: Landing, tmp_path: Path, killed: int, until: tuple[int, ...]
) -> None:
    mirror = decoded(landing, tmp_path / "mirror")
    mirror.kills = killed
    with pytest.raises(KeyboardInterrupt):
        mirror.release(3)
    again = decoded(landing, tmp_path / "mirror")
    for version in until:
        again.release(version)
    shown = [version for files in again.held().values() for path in files for version in path.split("-")]
    assert shown == ["1", "2", "3"]


STAGING = BrokenState("STAGING_FAILED", "the folder can't be written: the job was aborted")
JAVA = "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Job aborted.\n"


@pytest.mark.parametrize(
    ("error", "cause", "code"),
    [
        (ValueError(f"[USER_RAISED_EXCEPTION] {DIFFERS} in partition 0 at offset 3"), None, "LOG_DIFFERS"),
        (STAGING, RuntimeError(f"{JAVA}Caused by: X: {DIFFERS} in partition 0 at offset 3"), "LOG_DIFFERS"),
        (STAGING, RuntimeError(f"{JAVA}Caused by: java.io.IOException: No space left on device"), "STAGING_FAILED"),
        (
            STAGING,
            RuntimeError(f"{JAVA}Caused by: org.apache.kafka.common.errors.TimeoutException: no answer"),
            "BROKER_UNREACHABLE",
        ),
        (TryAgain("BROKER_REFUSED", "no"), None, "BROKER_REFUSED"),
    ],
)
def test_only_other_bytes_are_a_log_that_differs(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception, code: str
) -> None:
    """What else can go wrong is repeated, or mended, as anywhere."""

    def fail(*_: object) -> None:
        raise error from cause

    monkeypatch.setattr("anabranch.change.replay._log_mirror.stage_frame", fail)
    monkeypatch.setattr(LogMirror, "_rows", lambda *_: None)
    mirror = LogMirror(landing.uri, tmp_path / "mirror", TopicSource(None, landing.settings, FLIGHTS))  # type: ignore[arg-type]
    with pytest.raises(AnabranchError) as told:
        mirror.release(2)
    assert told.value.code == code


def test_an_error_that_is_not_ours_stays_what_it_is(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(LogMirror, "_rows", fail)
    mirror = LogMirror(landing.uri, tmp_path / "mirror", TopicSource(None, landing.settings, FLIGHTS))  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        mirror.release(2)
