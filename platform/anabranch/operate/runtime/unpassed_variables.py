"""Finds variables of the shell that the project's code reads, and that don't reach the parts which load it.

Code is read as text, not run. Only literal names are found: ``os.environ["X"]``, ``os.environ.get("X")`` and
``os.getenv("X")``, also by ``environ`` and ``getenv`` alone.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from anabranch.core.settings import Settings
from anabranch.operate.runtime._part_needs import from_shell

_STREAM: Final = "speed"
"""A part that loads contracts and views, and gets the least of those that do."""
_DAGS: Final = "airflow-dag-processor"


def unpassed_notices(settings: Settings) -> list[str]:
    """One notice that names the variables which are set here and that this code reads, where, and the setting which
    passes them on; none if there are none."""
    found = _unpassed(settings)
    if not found:
        return []
    places = ", ".join(f"{name} ({place})" for name, place in sorted(found.items()))
    line = json.dumps([*settings.pass_env, *sorted(found)])
    what = f"the project's code reads variables that are set here and don't reach every part that loads it: {places}"
    return [f"{what}. To pass them on, write into anabranch.env before the next start:\nANABRANCH_PASS_ENV={line}"]


def _unpassed(settings: Settings) -> dict[str, str]:
    """By name, the first place that reads it."""
    folders = {
        settings.contracts_folder: _STREAM,
        settings.views_folder: _STREAM,
        settings.project / "dags": _DAGS,
    }
    found: dict[str, str] = {}
    for folder, part in folders.items():
        given = from_shell(part, os.environ, settings.pass_env)
        for file in sorted(folder.rglob("*.py")):
            for name, line in _read_by(file):
                if name not in given and name in from_shell(part, os.environ, [name]):
                    found.setdefault(name, f"{file.relative_to(settings.project)}:{line}")
    return found


def _read_by(file: Path) -> Iterator[tuple[str, int]]:
    """The names of the variables that it reads, each with its line. A file that can't be read has none: who loads it
    says why."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=of, slice=ast.Constant(value=str(name)), ctx=ast.Load()) if _is(of, "environ"):
                yield name, node.lineno
            case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=str(name)), *_]) if _is(
                of, "environ"
            ):
                yield name, node.lineno
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]) if _is(function, "getenv"):
                yield name, node.lineno


def _is(node: ast.expr, name: str) -> bool:
    """Whether it is ``name``, or that of a module."""
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
