"""Every command of the command line, by its name with the groups before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.apps.cli.main import app
from typer.main import get_command


def _commands() -> Iterator[tuple[str, Any]]:
    todo: list[tuple[str, Any]] = [("", get_command(app))]
    while todo:
        name, command = todo.pop(0)
        below = getattr(command, "commands", {})
        todo += [(f"{name} {sub}".strip(), found) for sub, found in below.items()]
        if not below:
            yield name, command


ALL = dict(_commands())
