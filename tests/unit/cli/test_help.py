"""The help of each command is read in a terminal of 80 columns."""

from __future__ import annotations

import re

import pytest
from anabranch.apps.cli.main import app
from support.every_command import ALL
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", ["", *sorted(ALL)])
def test_it_is_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    shown = CliRunner().invoke(app, [*name.split(), "--help"])
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown.stdout
    command = ALL.get(name)
    for each in command.params if command else ():
        for option in (text for text in each.opts if text.startswith("--")):
            assert re.search(rf"{option}(?![\w-])", shown.stdout), f"{option} is cut off"
