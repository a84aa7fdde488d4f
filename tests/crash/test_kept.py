"""A sweep of hours is made in parts: what was tried is kept, and not tried again."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from anabranch.core.storage import LocalDisk

from crash.acts import ACTS
from crash.killed_code import code_of, without_docstrings
from crash.report import keep, kept, page
from crash.sweep import Outcome, Point, named, tries

pytestmark = pytest.mark.unit
COMMIT = Point("batch: repair", "link", "lake/views/v/speed/_delta_log/<n>.json")
OTHER = Point("batch: repair", "delete", "a/<id>")


def test_what_was_tried_is_kept_and_not_tried_again(tmp_path: Path) -> None:
    file, found = tmp_path / "report.jsonl", {COMMIT: 2, OTHER: 5}
    assert kept(file) == ([], {})
    whole = list(tries(found, Random(1)))
    assert [each.point for each in whole] == [COMMIT, OTHER, COMMIT, OTHER, *[COMMIT] * 4]
    assert sum(each.after for each in whole if each.point == COMMIT) == 3
    assert [each.after for each in whole if each.point == OTHER] == [False, True]
    first = [Outcome(one, True, 1.5, (), "abc", "c0de") for one in whole[:3]]
    first[1] = Outcome(first[1].made, True, 2.5, ("one row too many",), "abc", "c0de")
    keep(file, first, {"batch: repair": 3})
    assert kept(file) == (first, {"batch: repair": 3})
    left = list(tries(found, Random(2), Counter(each.made.point for each in kept(file)[0])))
    assert [(each.point, each.after, each.alone) for each in left] == [
        (OTHER, True, False), (COMMIT, False, True), (COMMIT, True, False), (COMMIT, False, False),
        (COMMIT, True, True),
    ]  # fmt: skip
    text = page([*first, *(Outcome(one, True, 1.0, (), "def+") for one in left)], {"batch: repair": 3})
    assert "8 kills at 2 of 3 points: 1 left something wrong.** 2 points had all their tries." in text
    assert "Of 3 at commit abc, 5 at commit def+." in text
    assert "one row too many" in text


def test_a_try_counts_until_the_code_that_it_killed_changes() -> None:
    digests = {act: code_of(act) for act in ACTS}
    assert digests["batch: repair"] == digests["batch: first of a day"]
    assert digests["batch: repair"] != digests["maintenance"]
    before = 'def one() -> int:\n    """What it is."""\n    return 1  # one\n'
    assert without_docstrings(before) == without_docstrings("def one() -> int:\n    return 1\n")
    assert without_docstrings(before) != without_docstrings("def one() -> int:\n    return 2\n")


def test_a_draft_is_the_same_point_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is new at each pass: a kill would wait for one that never comes again."""
    drafts = list[Path]()
    monkeypatch.setattr("os.link", lambda draft, _: drafts.append(draft))
    for _ in range(20):
        assert LocalDisk().create(tmp_path / "control" / "7.json", b"{}")
    (name,) = {named(str(draft), tmp_path) for draft in drafts}
    point = Point("batch: repair", "delete", name)
    assert all(re.fullmatch(point.expression(tmp_path), str(draft)) for draft in drafts)
