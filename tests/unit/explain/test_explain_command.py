"""``anabranch explain`` refuses what can't be a key before anything is started."""

from __future__ import annotations

import pytest
from anabranch.apps.cli.main import app
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["departure_delays", "--key", "origin"], "KEY_UNREADABLE"),
        (["departure_delays", "--key", "origin=JFK", "--key", "origin=EWR"], "KEY_UNREADABLE"),
        (["departure_delays", "--key", "a=b", "--against", "flights@1", "--against-version", "2"], "AGAINST_TWICE"),
    ],
)
def test_wrong_questions_end_with_a_code(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["explain", *arguments])
    assert result.exit_code == 1
    assert said in result.stderr
