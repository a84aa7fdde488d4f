"""The page of a run leads to the results of its own verdict, whatever the times of files say."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from anabranch.certify._static_pages import write_run_index
from anabranch.certify.verdict import Verdict

pytestmark = pytest.mark.unit


def test_of_a_run_that_was_repeated_with_a_clock_behind(tmp_path: Path) -> None:
    first, again = (datetime(2013, 1, 2, hour, tzinfo=UTC) for hour in (12, 9))
    for written, at in enumerate((again, first)):
        page = tmp_path / "validations" / "batch" / "run" / f"{at:%Y%m%dT%H%M%S.%fZ}" / "batch.html"
        page.parent.mkdir(parents=True)
        page.touch()
        os.utime(page, (written + 1, written + 1))
    verdict = Verdict("delays", 1, "run", "flights@1", 1, (), {}, (), created=again)
    text = write_run_index(tmp_path, verdict).read_text()
    assert "20130102T090000" in text
    assert "20130102T120000" not in text
    late = Verdict("delays", 1, "run", "flights@1", 1, (), {}, (), created=first + timedelta(days=1))
    assert "20130102T120000" in write_run_index(tmp_path, late).read_text(), "its own pages are not written yet"
