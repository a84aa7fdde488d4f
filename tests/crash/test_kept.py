"""A sweep of hours is made in parts: what was tried is kept, and not tried again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from anabranch.core.storage import LocalDisk
from support.our_packages import PACKAGE, modules

from crash.acts import ACTS
from crash.killed_code import COMMITS_NOTHING, closure, code_of, killed, named_by, without_docstrings
from crash.report import keep, kept, page
from crash.sweep import Outcome, Point, Try, named, tries

pytestmark = pytest.mark.unit
COMMIT = Point("batch: repair", "link", "lake/views/v/speed/_delta_log/<n>.json")
OTHER = Point("batch: repair", "delete", "a/<id>")
THIRD = Point("batch: repair", "rename", "b")


def test_what_was_tried_is_kept_and_not_tried_again(tmp_path: Path) -> None:
    file, found, code = tmp_path / "report.jsonl", {COMMIT: 2, OTHER: 5}, code_of("batch: repair")
    known = {"batch: repair": {COMMIT, OTHER, THIRD}}
    assert kept(file) == ([], {})
    whole = list(tries(found, Random(1)))
    assert [each.point for each in whole] == [COMMIT, OTHER, COMMIT, OTHER, *[COMMIT] * 4]
    assert sum(each.after for each in whole if each.point == COMMIT) == 3
    assert [each.after for each in whole if each.point == OTHER] == [False, True]
    first = [Outcome(one, True, 1.5, (), "abc", code, "2026-11-26") for one in whole[:3]]
    first[1] = Outcome(first[1].made, True, 2.5, ("one row too many",), "abc", code, "2026-11-26")
    keep(file, first, known)
    assert kept(file) == (first, known)
    left = list(tries(found, Random(2), Counter(each.made.point for each in kept(file)[0])))
    assert [(each.point, each.after, each.alone) for each in left] == [
        (OTHER, True, False), (COMMIT, False, True), (COMMIT, True, False), (COMMIT, False, False),
        (COMMIT, True, True),
    ]  # fmt: skip
    text = page([*first, *(Outcome(one, True, 1.0, (), "def+", code, "2026-11-27") for one in left)], known)
    assert "8 kills at 2 of 3 points: 1 left something wrong.** 2 points had all their tries." in text
    assert "Of 3 at commit abc, 5 at commit def+; 3 on 2026-11-26, 5 on 2026-11-27." in text
    assert "one row too many" in text


def test_points_that_only_an_earlier_run_has_passed_are_points_still(tmp_path: Path) -> None:
    """The page said "26 of 24 points"."""
    file, code = tmp_path / "report.jsonl", code_of("batch: repair")
    tried = [Outcome(Try(point, 1, False, False), True, 1.0, (), "abc", code) for point in (COMMIT, OTHER)]
    keep(file, tried, {"batch: repair": {COMMIT, OTHER}})
    before, known = kept(file)
    known["batch: repair"] |= {COMMIT, THIRD}  # what the next run passes
    keep(file, before, known)
    assert kept(file) == (tried, {"batch: repair": {COMMIT, OTHER, THIRD}})
    assert "2 kills at 2 of 3 points" in page(tried, known)
    assert "2 of 3 points.\n" in page(tried, known)
    assert "2 kills at 2 of 2 points" in page(tried, {"batch: repair": {COMMIT}}), "what was hit is there"


def test_what_is_of_other_code_or_of_an_earlier_form_counts_no_more(tmp_path: Path) -> None:
    file, code = tmp_path / "report.jsonl", code_of("batch: repair")
    one = Try(COMMIT, 1, False, False)
    old, new = (Outcome(one, True, 1.0, (), "abc", each) for each in ("0dd", code))
    keep(file, [old, new], {"batch: repair": {COMMIT}})
    assert kept(file) == ([new], {"batch: repair": {COMMIT}})
    file.write_text(file.read_text().replace(f'"{code}", "points"', '"0dd", "points"'))
    assert kept(file) == ([new], {})
    file.write_text('{"points": {"batch: repair": 14}}\n')
    assert kept(file) == ([], {})


def test_a_try_counts_until_the_code_that_it_killed_changes() -> None:
    digests = {act: code_of(act) for act in ACTS}
    assert digests["speed: next batch"] == digests["speed: first batch"]
    assert digests["batch: repair"] != digests["maintenance"]
    before = 'def one() -> int:\n    """What it is."""\n    return 1  # one\n'
    assert without_docstrings(before) == without_docstrings("def one() -> int:\n    return 1\n")
    assert without_docstrings(before) != without_docstrings("def one() -> int:\n    return 2\n")


COMMITS = {
    "landing: release from quarantine": ("ingest.landing.audit._release_epoch", "lake.commits"),
    "landing": ("lake.commits", "ingest.landing.writer", "ingest.landing.id_index", "ingest.landing.checkpoint"),
    "speed": ("compute.speed._sink", "compute.speed._partition_sink", "lake.streams.writer_fencing"),
    "batch": ("compute.batch.rebuild", "compute.batch.publish", "certify.certificates", "change.publish_run"),
    "replay": ("change.replay.runner", "change.replay.publish", "change.replay.state", "compute.speed.table"),
    "migration": ("change.migrate.migration", "change.migrate.step_progress", "serve.routes"),
    "maintenance": ("operate.maintenance._compaction", "operate.maintenance._vacuum", "lake.file_commits"),
    "retirement": ("serve.retirement", "change.replay.control", "serve.routes"),
    "reinstatement": ("serve.retirement", "change.replay.control", "serve.routes"),
    "registration": ("views.definition_registry", "views.upcaster_registry"),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_an_act_commits_by_is_killed(act: str) -> None:
    """A list of modules had no ``core.storage``, which links, renames and deletes everything."""
    found = {name.removeprefix("anabranch.") for name in killed(act)}
    assert {"core.storage", "core.control_file", *(COMMITS.get(act) or COMMITS[act.partition(":")[0]])} <= found
    assert not found & {"core.settings", "core.errors", "contracts.fields.patterns", "views._purity", "serve._scanning"}


def test_imports_are_followed_as_python_does() -> None:
    """Behind the front doors, too: a process that has imported what acts name has loaded nothing that isn't known."""
    named = set[str]().union(*(named_by(act.carry_out) for act in ACTS.values()))
    program = f"import importlib, sys\nfor name in {sorted(named)}: importlib.import_module(name)\nprint(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = {name for name in said.split() if name.startswith("anabranch.")}
    doors = {name for name in loaded if modules(PACKAGE)[name].name == "__init__.py"}
    assert len(loaded - doors) > 50
    assert loaded - doors - {"anabranch._lazy_exports"} <= closure(named)


def test_a_package_is_left_out_for_a_reason_that_holds() -> None:
    """Each has modules that acts import, and none of those that are left out changes what is stored."""
    used, kept_in = set[str](), set[str]()
    for name, act in ACTS.items():
        used |= closure(named_by(act.carry_out))
        kept_in |= {*killed(name)}
    for package in COMMITS_NOTHING:
        assert any(f"{name}.".startswith(f"{package}.") for name in used), package
    calls = re.compile(r"\bos\.(link|rename|replace|remove|unlink|rmdir)\(|\.(unlink|rmdir|rmtree|writeStream)\b")
    wrong = [name for name in used - kept_in if calls.search(modules(PACKAGE)[name].read_text())]
    assert wrong == []


def test_a_draft_is_the_same_point_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is new at each pass: a kill would wait for one that never comes again."""
    drafts = list[Path]()
    monkeypatch.setattr("os.link", lambda draft, _: drafts.append(draft))
    for _ in range(20):
        assert LocalDisk().create(tmp_path / "control" / "7.json", b"{}")
    (name,) = {named(str(draft.relative_to(tmp_path))) for draft in drafts}
    point = Point("batch: repair", "delete", name)
    assert all(re.fullmatch(point.expression(tmp_path), str(draft)) for draft in drafts)


def test_a_build_of_a_run_is_the_same_point_whatever_its_random_name() -> None:
    names = {named(f"builds/replay-again-{name}/part-00000.parquet") for name in ("a1f20cf3", "00ff1a23", "12345678")}
    assert names == {"builds/replay-again-<id>/part-<n>.parquet"}
