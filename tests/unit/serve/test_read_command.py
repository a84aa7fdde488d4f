"""``anabranch read`` and ``anabranch certificates``: rows with what they cover; errors as their text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.settings import Settings
from support import small_halves
from support.small_halves import DAYS, KEYS, VIEW
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3)
    small_halves.publish(settings, {DAYS[0]: 3}, DAYS[:1])
    return settings


@pytest.mark.usefixtures("settings")
def test_json_holds_the_rows_and_what_they_cover() -> None:
    result = CliRunner().invoke(app, ["read", VIEW, "--json", "--limit", "2", "--where", "origin is not null"])

    content = json.loads(result.stdout)
    assert (len(content["rows"]), content["total"]) == (2, (KEYS - 1) * len(DAYS))
    assert content["rows"][0] == {
        "window_start": "2013-01-01T00:00:00Z",
        "origin": "O'0",
        "written_by": 3,
        "mean_delay": "1.125",
    }
    assert content["halves"]["2013-01-01"] == "batch"
    assert content["cut"]["flights"]["epoch"] == 3


@pytest.mark.usefixtures("settings")
def test_csv_holds_every_row_and_the_table_says_how_many_there_are() -> None:
    csv = CliRunner().invoke(app, ["read", VIEW, "--csv", "--partition", "2013-01-02"])
    table = CliRunner().invoke(app, ["read", VIEW, "--limit", "0"])

    assert csv.stdout.splitlines()[:2] == [
        "window_start,origin,written_by,mean_delay",
        "2013-01-02T00:00:00Z,O'0,3,1.125",
    ]
    assert len(csv.stdout.splitlines()) == KEYS + 1
    assert f"0 of {KEYS * len(DAYS)} rows" in table.stdout
    assert "partitions served: 1 by batch, 4 by speed" in table.stdout
    assert "5 not certified yet" in table.stdout.replace("\n", " ")


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["read", "../landing"], "NAME_UNSAFE"),
        (["read", "nothing"], "VIEW_UNKNOWN"),
        (["read", VIEW, "--where", "1 = 1; drop table x"], "WHERE_REFUSED"),
        (["read", VIEW, "--prefer", "newest"], "PREFER_UNKNOWN"),
        (["read", VIEW, "--partition", "yesterday"], "DAY_UNREADABLE"),
        (["read", VIEW, "--at-least", "flights@99", "--wait", "0.1"], "CUT_NOT_REACHED"),
        (["read", VIEW, "--at-least", "flights"], "CUT_UNREADABLE"),
        (["read", VIEW, "--json", "--csv"], "FORMAT_TWICE"),
        (["certificates", "nothing"], "VIEW_UNKNOWN"),
    ],
)
def test_a_wrong_parameter_ends_in_its_error(arguments: list[str], code: str) -> None:
    result = CliRunner().invoke(app, arguments)

    assert (result.exit_code, f"[{code}]" in result.stderr) == (1, True)
