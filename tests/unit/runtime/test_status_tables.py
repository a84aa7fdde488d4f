"""``anabranch status`` in a narrow terminal: lines wrap, and nothing that a person looks for is cut off."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from anabranch.apps.cli._platform_commands import _print_table, _print_views
from anabranch.compute.speed.status import ViewStatus
from anabranch.operate.runtime.lifecycle import PartStatus

pytestmark = pytest.mark.unit
LAG = "flights: 1,234 records not yet landed, oldest 12 s; weather: 3 records not yet landed, oldest 1 s"
PART = PartStatus("airflow-dag-processor", "running", 123_456, 1_795_000_000.0, 1_234_000_000, 18_080, 2, "", "")
CUT = "flights@12, planes@3, weather@1234"
VIEWS = [
    ViewStatus("delays_in_weather", 12, "running", CUT, 7, 10, 1_500, 8_546_123, 12_000_000),
    ViewStatus("departure_delays", 1, "failed", CUT, error="[STATE_TOO_LARGE] the state of this stream is too large"),
]


def words(text: str) -> str:
    """Of one line: columns are read downwards, so only that each word is there is known."""
    return " ".join(re.split(r"\s+", text))


def test_a_part_that_crashes_says_why_before_its_lag_and_when_in_utc(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    crashes = "ended with 1; next start in 30 s"
    try:
        _print_table([replace(PART, name="landing", state="waiting", detail=crashes)], {"landing": LAG})
    finally:
        monkeypatch.undo()
        time.tzset()
    said = words(capsys.readouterr().out)
    assert f"{crashes}; {LAG}" in said
    assert "since (UTC)" in said
    assert "11-18 11:06:40" in said


@pytest.mark.parametrize("width", [80, 200])
def test_no_word_is_cut_off(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    _print_table([PART], {PART.name: LAG})
    _print_views(VIEWS, ["3", ""], 2_000)
    said = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
    assert max(map(len, said.splitlines())) <= width
    shown = words(said)
    for word in (
        *LAG.split(),
        *CUT.split(),
        "airflow-dag-processor",
        "123456",
        "18080",
        "delays_in_weather",
        "8,546,123",
    ):
        assert word in shown, word
    assert "[STATE_TOO_LARGE]" in shown
