"""A benchmark that can't be trusted gives no figure, and says why."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks import fairness, machine, report
from benchmarks.cases.replay import Stretch
from benchmarks.figures import Figure, Origin, Report, Sample, ratios
from benchmarks.trust import commit_of

pytestmark = pytest.mark.unit
ORIGIN = Origin("abc123", "2026-11-23 12:00 UTC", "full", 0.02, hardware="one, 2 cores", software="Python 3")
GOOD = Report(
    "batch",
    "A rebuild",
    "What it is.",
    (),
    (Figure("batch.speed", "speed", (1.0, 1.1, 0.9, 1.2, 1.0), limit=0.95),),
    samples={"platform": [1.0] * 5},
    origin=ORIGIN,
)
BAD = {
    "no origin": (replace(GOOD, origin=None), "were not recorded"),
    "quick": (replace(GOOD, origin=replace(ORIGIN, size="quick")), "a quick run"),
    "no commit": (replace(GOOD, origin=replace(ORIGIN, commit="")), "commit them first"),
    "busy": (replace(GOOD, origin=replace(ORIGIN, busy=0.3)), "30% of the cores were in use"),
    "few runs": (replace(GOOD, samples={"platform": [1.0] * 4}), "platform: 4 runs"),
    "few values": (replace(GOOD, figures=(Figure("batch.speed", "", (1.0,)),)), "batch.speed: 1 runs"),
    "no runs": (replace(GOOD, samples={}), "were not kept"),
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(report, "KEPT", tmp_path / "results.json")
    return tmp_path / "results.json"


def test_what_may_be_believed_is_kept_and_shown(results: Path) -> None:
    report.keep(GOOD)
    assert report.kept() == [GOOD]
    page = report.page()
    assert "- hardware: one, 2 cores\n- software: Python 3\n- commit: abc123\n" in page
    assert "speed (`batch.speed`): 1.00, 0.90 to 1.20, target at least 0.95: met" in page
    assert "**not measured yet**: landing, " in page


def test_what_was_measured_elsewhere_is_named(results: Path) -> None:
    report.keep(GOOD)
    report.keep(replace(GOOD, name="speed", origin=replace(ORIGIN, hardware="another, 2 cores", software="")))
    page = report.page()
    assert "- hardware: one, 2 cores: batch\n- hardware: another, 2 cores: speed\n" in page
    assert "- software: not kept: speed\n- commit: abc123\n" in page


def test_the_machine_s_own_speed_is_kept_and_shown(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_HASHES", 1 << 10)
    monkeypatch.setattr(machine, "_TRIPS", 100)
    one, every, trips = machine.speed()
    assert 0 < one < every * 2
    assert 100 < trips < 1e6
    report.keep(replace(GOOD, origin=replace(ORIGIN, speed=(17.8, 35.9, 9321))))
    assert "36 by all, 9,321 round trips a second over loopback." in report.page()
    report.keep(replace(GOOD, origin=replace(ORIGIN, speed=(17.8, 35.9))))
    assert report.kept()[0].origin == replace(ORIGIN, speed=(17.8, 35.9))
    assert "stolen by the host; speed of the machine: 18 MB/s packed by one core, 36 by all." in report.page()


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.9, "met"), (0.898, "**missed by less than 1%**"), (0.89, "**missed by 1%**"), (0.45, "**missed by 50%**")],
)
def test_what_is_missed_by_little_is_not_missed_by_nothing(value: float, told: str) -> None:
    assert Figure("batch.speed", "", (value,), limit=0.9).verdict == told


def test_each_slice_of_a_replay_is_a_value_with_the_pause_before_it() -> None:
    stretch = Stretch()
    for done, event_seconds, seconds in ((10, 400.0, 4.0), (10, 400.0, 5.0), (50, 1_000.0, 10.0), (90, 1_100.0, 20.0)):
        stretch.note([replace(stretch.replay, done=done, event_seconds=event_seconds, seconds=seconds)])
    assert stretch.paces() == (100.0, 100.0, 10.0)


@pytest.mark.parametrize("name", BAD)
def test_what_may_not_be_believed_gives_no_figure(results: Path, name: str) -> None:
    bad, reason = BAD[name]
    with pytest.raises(ValueError, match=reason):
        report.keep(bad)
    assert not results.exists()
    page = report.render([bad])
    assert "**No figure**" in page
    assert reason in page
    assert "1.00" not in page


def test_a_ratio_is_taken_run_by_run() -> None:
    assert ratios([Sample(2.0), Sample(6.0)], [Sample(1.0), Sample(2.0)]) == (2.0, 3.0)


def table(folder: Path, name: str, files: int = 1, compression: Literal["SNAPPY", "ZSTD"] = "SNAPPY") -> str:
    from deltalake import WriterProperties

    rows = pa.table({"day": ["one", "two"], "value": [1, 2]})
    for _ in range(files):
        properties = WriterProperties(compression=compression)
        write_deltalake(folder / name, rows, partition_by=["day"], mode="append", writer_properties=properties)
    return str(folder / name)


def test_tables_of_one_layout_may_be_compared(tmp_path: Path) -> None:
    text = fairness.check_layout(table(tmp_path, "ours"), table(tmp_path, "theirs"))
    assert "1.0 and 1.0 files per partition" in text


@pytest.mark.parametrize("other", [{"files": 2}, {"compression": "ZSTD"}])
def test_tables_of_different_layouts_may_not(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(fairness.DifferentLayout):
        fairness.check_layout(table(tmp_path, "ours"), table(tmp_path, "theirs", **other))


def test_a_table_without_bounds_has_it_easier(tmp_path: Path) -> None:
    import json

    ours, theirs = table(tmp_path, "ours"), table(tmp_path, "theirs")
    (log,) = (Path(ours) / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = json.dumps({"numRecords": 1})
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(fairness.DifferentLayout, match=r"bounds=frozenset\(\)"):
        fairness.check_layout(ours, theirs)


def test_the_commit_of_a_figure_is_the_newest_one_of_its_sources(tmp_path: Path) -> None:
    def changed(name: str) -> str:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{len(made)}")
        git("add", ".")
        git("commit", "-qm", name)
        return git("rev-parse", "--short=12", "HEAD")

    def git(*command: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@t"]
        done = subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True, text=True)  # noqa: S607
        return done.stdout.strip()

    made = list[str]()
    git("init", "-q")
    made.extend(changed(name) for name in ("platform/a.py", "docs/a.md", "benchmarks/results.json"))
    assert commit_of(tmp_path) == made[0]
    (tmp_path / "benchmarks" / "results.json").write_text("measured")
    (tmp_path / "docs" / "a.md").write_text("written")
    assert commit_of(tmp_path) == made[0]
    made.append(changed("infra/a.sh"))
    assert commit_of(tmp_path) == made[3]
    (tmp_path / "platform" / "a.py").write_text("not committed")
    assert commit_of(tmp_path) == ""
