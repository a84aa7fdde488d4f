"""A sweep of hours is made in parts: what was tried is kept, and not tried again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from crash.report import keep, kept, page
from crash.sweep import Outcome, Point, tries

pytestmark = pytest.mark.unit
ONE, TWO = Point("batch: repair", "rename", "a/<n>.json"), Point("batch: repair", "delete", "a/<id>")


def test_what_was_tried_is_kept_and_not_tried_again(tmp_path: Path) -> None:
    file, found = tmp_path / "report.jsonl", {ONE: 2, TWO: 5}
    assert kept(file) == []
    first = [Outcome(one, True, 1.5, (), "abc") for one in list(tries(found, 3, Random(1)))[:4]]
    first[1] = Outcome(first[1].made, True, 2.5, ("one row too many",), "abc")
    keep(file, first)
    assert kept(file) == first
    done = Counter(each.made.point for each in kept(file))
    left = list(tries(found, 3, Random(2), done))
    assert [(each.point, each.after, each.alone) for each in left] == [(TWO, True, False), (TWO, False, True)]
    text = page([*first, *(Outcome(one, True, 1.0, (), "def+") for one in left)])
    assert "6 kills at 2 points: 1 left something wrong" in text
    assert "Of 4 at commit abc, 2 at commit def+." in text
    assert "one row too many" in text
