"""The judge of the soak sees what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from soak.report import Soak, page
from soak.watching import Sample
from soak.works import Worked

pytestmark = pytest.mark.unit


def whole() -> Soak:
    samples = [
        Sample(15.0 * n, 900, {"landing": 2 * 10**9}, 300 + n % 7, 250, 5_000 + 40 * n, 10**9) for n in range(120)
    ]
    works = [Worked("reprocess", "success", True, 40.0, ""), Worked("migrate", "led back", True, 90.0, "rolled back")]
    return Soak(7, 1_000, 30, 1_800, 1_800, [(61.0, "kafka, all its processes")], samples, works, 2.0)


def grown(soak: Soak, name: str, more: Callable[[Sample], object]) -> None:
    half = len(soak.samples) // 5 * 3
    soak.samples[half:] = [replace(sample, **{name: more(sample)}) for sample in soak.samples[half:]]


def crowded(soak: Soak) -> None:
    soak.samples[:] = [replace(sample, named=sample.named * 3) for sample in soak.samples]


def test_nothing_is_wrong_with_what_is_whole() -> None:
    assert list(whole().wrong()) == []
    assert "1 kills, 2 runs: nothing is wrong.**" in page(whole())


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda soak: setattr(soak, "landed", 1_799), "1,800 records were sent, 1,799 have landed"),
        (lambda soak: setattr(soak, "level_seconds", 500.0), "500 s after it was sent"),
        (lambda soak: soak.doctor.append(json.dumps({"code": "ROWS_DIFFER"})), "ROWS_DIFFER"),
        (lambda soak: soak.works.append(Worked("repair", "failed", False, 9.0, "why")), "repair ended as failed: why"),
        (lambda soak: grown(soak, "memory", lambda _: {"landing": 3 * 10**9}), "landing grew from 2,000 to 3,000 MB"),
        (
            lambda soak: grown(soak, "named", lambda sample: sample.named * 2),
            "1.2 data files for each partition in",
        ),
        (crowded, "data files for each partition in the first half, 3.7 later"),
    ],
)
def test_each_thing_that_is_wrong_is_said(break_it: Callable[[Soak], None], said: str) -> None:
    soak = whole()
    break_it(soak)
    (wrong,) = soak.wrong()
    assert said in wrong
    assert wrong in page(soak)
