"""Every parameter of every command takes hostile texts: a new one is tried without anybody thinking of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.settings import Settings
from support.hostile_texts import CANARY
from typer.main import get_command
from typer.testing import CliRunner

pytestmark = pytest.mark.system

TEXTS = [
    f"$(touch {CANARY})`touch {CANARY}`; touch {CANARY}\ntouch {CANARY} #{{{{ ''.__class__.__mro__ }}}}{{% raw %}}",
    f"'; COPY (SELECT 1) TO '{CANARY}'; -- ${{jndi:ldap://127.0.0.1/x}}",
    f"../../../../../..{CANARY}",
    "<script>alert(1)</script>a\x00b\x1b]0;x\x07[red]\N{RIGHT-TO-LEFT OVERRIDE}txt.exe" + "x" * 5_000,
    "-rf",
]
GOOD = {
    "view": "departure_delays", "topic": "flights", "version": "1", "old": "1", "new": "2", "key": "origin=JFK",
    "why": "so", "first": "2013-01-01", "partition": "2013-01-01", "shares": "1=100", "at": "0:0", "name": "flights",
    "part": "speed", "file": "sample.jsonl", "event_type": "payment.made", "folder": "backups",
    "place": "0:0", "files": "data",
}  # fmt: skip
"""A value for each parameter that a command can't do without."""
ANY_TEXT = {
    ("produce flights", "log"), ("quarantine release", "why"), ("quarantine release", "by"),
    ("landing accept-loss", "why"),
}  # fmt: skip
"""A person's own file, and words that are only kept: with the others in place the command would do its work."""
Command = tuple[str, Any, Any]


def parameters() -> Iterator[Command]:
    todo: list[tuple[str, Any]] = [("", get_command(app))]
    while todo:
        name, command = todo.pop(0)
        todo += [(f"{name} {sub}".strip(), found) for sub, found in getattr(command, "commands", {}).items()]
        if not hasattr(command, "commands"):
            for each in command.params:
                if not getattr(each, "is_flag", False) and (name, each.name) not in ANY_TEXT:
                    yield name, command, each


ALL = list(parameters())


def line(name: str, command: Any, tried: Any, text: str) -> list[str]:
    options, arguments = [], []
    for each in command.params:
        options += ["--yes"] if each.name == "yes" else []
        if each is not tried and not each.required:
            continue
        value = text if each is tried else GOOD[each.name]
        if each.param_type_name == "option":
            options.append(f"{each.opts[0]}={value}")
        else:
            arguments.append(value)
    return [*name.split(), *options, "--", *arguments]


def test_there_are_many() -> None:
    assert len(ALL) > 120
    assert {name for name, _, _ in ALL} >= {"explain", "migrate start", "replay start", "routes set", "up"}


@pytest.mark.parametrize("number", range(len(ALL)), ids=[f"{name} {each.name}" for name, _, each in ALL])
def test_a_hostile_text_ends_in_a_clear_error(
    number: int, broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANABRANCH_BOOTSTRAP_SERVERS", broker.brokers)
    for text in [*TEXTS, *([""] if ALL[number][2].required else [])]:
        result = CliRunner().invoke(app, line(*ALL[number], text))
        assert result.exit_code in (1, 2), (text, result.output)
        assert isinstance(result.exception, SystemExit), (text, result.exception)
        assert "[" in result.stderr or "Usage" in result.stderr, (text, result.stderr)
        assert "\x1b]" not in result.output
    assert not CANARY.exists()
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in left if not path.startswith(("home/secrets/", "home/run/.lock"))} == set()
