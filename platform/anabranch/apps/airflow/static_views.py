"""The declarations of views, read from their source without running it.

A DAG file is parsed every few seconds; importing the views would import pyspark each time, and code of an author
would run in Airflow's own process. So only the literals of each ``@view(...)`` are read. Whether a definition is
any good is decided by registration, in the first step of a run.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.core.settings import SAFE_NAME
from anabranch.views.definition import names

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Declared:
    """What ``@view(...)`` says of one version of a view, and its function's docstring."""

    name: str
    version: int
    events: tuple[str, ...]
    key: tuple[str, ...]
    partition_by: str | None
    lookback: str
    lookahead: str
    doc: str
    file: str
    line: int
    newest: bool = True

    def __post_init__(self) -> None:
        if not SAFE_NAME.fullmatch(self.name) or self.version < 1 or not self.events or not self.key:
            raise ValueError(f"{self.name!r} v{self.version} is no declaration of a view")

    @property
    def title(self) -> str:
        """``view`` for its newest version, ``view.v1`` for an older one: what its DAGs are called."""
        return self.name if self.newest else f"{self.name}.v{self.version}"

    @property
    def kappa(self) -> bool:
        return self.partition_by is None


def declared_views(folder: Path) -> dict[str, list[Declared]]:
    """Every version of every view below ``folder`` (``spark_jobs/views``), by name, newest version first.

    A file that can't be read is left out with an error in the log: it must not take the other views' DAGs away.
    """
    found: dict[str, list[Declared]] = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        try:
            for view in _in_module(path):
                found.setdefault(view.name, []).append(view)
        except (ValueError, TypeError, KeyError, AttributeError, SyntaxError, OSError) as error:
            log.error("%s: no DAG for the views of this file: %s", path, error)
    return {name: _newest_first(views) for name, views in sorted(found.items())}


def _newest_first(views: list[Declared]) -> list[Declared]:
    newest, *older = sorted(views, key=lambda view: -view.version)
    return [newest, *(replace(view, newest=False) for view in older)]


def _in_module(path: Path) -> Iterator[Declared]:
    tree = ast.parse(path.read_text(), str(path))
    constants = dict(_constants(tree))
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _is_view(decorator.func):
                said = {k.arg: _literal(k.value, constants) for k in decorator.keywords if k.arg}
                yield _declared(said, node, path)


def _declared(said: Mapping[str, Any], node: ast.FunctionDef, path: Path) -> Declared:
    return Declared(
        name=said["name"],
        version=said["version"],
        events=names(said["events"]),
        key=names(said["key"]),
        partition_by=said.get("partition_by"),
        lookback=str(said.get("lookback", "0 hours")),
        lookahead=str(said.get("lookahead", "0 hours")),
        doc=ast.get_docstring(node) or "",
        file=path.name,
        line=node.lineno,
    )


def _is_view(function: ast.expr) -> bool:
    return (isinstance(function, ast.Name) and function.id == "view") or (
        isinstance(function, ast.Attribute) and function.attr == "view"
    )


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Names of the module that stand for a literal: ``DEPARTED = "flight.departed"``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                yield node.targets[0].id, ast.literal_eval(node.value)
            except ValueError:
                continue


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return constants[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(item, constants) for item in node.elts]
    if isinstance(node, ast.Call):  # timedelta(hours=36): only shown, never computed with
        return ast.unparse(node)
    return ast.literal_eval(node)
