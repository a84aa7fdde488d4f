"""Whether landing continues from a checkpoint: only if that continues exactly after what has landed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from anabranch.ingest.landing.checkpoint import can_resume

pytestmark = pytest.mark.unit
TOPIC = "flights"


def checkpoint(folder: Path, begin: Mapping[int, int], *plans: Mapping[int, int], done: int = 0) -> Path:
    """``plans``: where each planned micro-batch ends; the first ``done`` of them have been committed."""

    def write(name: str, text: str) -> None:
        path = folder / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def said(offsets: Mapping[int, int]) -> str:
        return json.dumps({TOPIC: {str(p): o for p, o in offsets.items()}})

    write("metadata", '{"id":"a"}')
    write("sources/0/0", f"v1\n{said(begin)}")
    for number, end in enumerate(plans):
        write(f"offsets/{number}", f'v1\n{{"batchWatermarkMs":0}}\n{said(end)}')
        if number < done:
            write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
    return folder / "checkpoint"


BATCH = {0: 100, 1: 40}


@pytest.mark.parametrize("log_begin", [{0: 0, 1: 0}, {0: 7, 1: 0}], ids=["from the start", "a trimmed log"])
def test_a_first_micro_batch_that_never_landed_is_repeated_if_the_log_still_has_it(
    tmp_path: Path, log_begin: dict[int, int]
) -> None:
    assert can_resume(checkpoint(tmp_path, log_begin, BATCH), TOPIC, {}, log_begin)


@pytest.mark.parametrize("log_begin", [{0: 3, 1: 0}, {0: 100, 1: 40}, {0: 500, 1: 500}])
def test_one_that_retention_has_passed_is_put_aside(tmp_path: Path, log_begin: dict[int, int]) -> None:
    path = checkpoint(tmp_path, {0: 0, 1: 0}, BATCH)
    assert not can_resume(path, TOPIC, {}, log_begin)
    assert not path.exists()
    assert path.with_name("checkpoint.aside").exists()


def test_a_query_that_was_killed_before_its_first_plan_begins_where_the_log_does(tmp_path: Path) -> None:
    assert not can_resume(checkpoint(tmp_path, {0: 7}), TOPIC, {}, {0: 7}), "there is nothing to continue"
    assert (tmp_path / "checkpoint").exists()
    assert not can_resume(checkpoint(tmp_path, {0: 7}), TOPIC, {}, {0: 8})
    assert not (tmp_path / "checkpoint").exists()


def test_a_checkpoint_that_is_ahead_of_a_table_without_anything_is_put_aside(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {0: 0, 1: 0}, BATCH, {0: 120, 1: 40}, done=1)
    assert not can_resume(path, TOPIC, {}, {0: 0, 1: 0})
    assert not path.exists()


def test_what_has_landed_decides_wherever_the_log_begins(tmp_path: Path) -> None:
    assert can_resume(checkpoint(tmp_path, {0: 0, 1: 0}, BATCH, done=1), TOPIC, BATCH, {0: 90, 1: 0})
    assert not can_resume(checkpoint(tmp_path, {0: 0, 1: 0}, BATCH, done=1), TOPIC, {0: 99, 1: 40}, {0: 0, 1: 0})
