"""Reads view declarations from their source without running it: of ``.sql`` files the header.

A DAG file is parsed every few seconds. Importing the views would import pyspark each time and run authors' code in
Airflow's own process, so only the literals of each ``@view(...)`` are read. Registration, in the first task of a run,
decides whether a definition is valid.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import view_files
from anabranch.core.settings import SAFE_NAME
from anabranch.views.model.definition import names
from anabranch.views.sql_file import read_sql_file

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Declared:
    """The arguments of one ``@view(...)``, and its function's docstring; or those of a ``.sql`` file's header."""

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
    current: bool = False
    """Whether most readers have it (``_current_version``)."""

    def __post_init__(self) -> None:
        if not SAFE_NAME.fullmatch(self.name) or self.version < 1 or not self.events or not self.key:
            raise ValueError(f"{self.name!r} v{self.version} is not a valid view declaration")

    @property
    def title(self) -> str:
        """The name of its DAGs: ``view`` for the newest version, ``view.v1`` for an older one."""
        return self.name if self.newest else f"{self.name}.v{self.version}"

    @property
    def kappa(self) -> bool:
        return self.partition_by is None


def declared_views(folder: Path) -> dict[str, list[Declared]]:
    """Returns all versions of every view below ``folder`` (``spark_jobs/views``) by name, newest version first.

    A file that can't be read is skipped and logged as an error: it must not remove the other views' DAGs.
    """
    found: dict[str, list[Declared]] = {}
    for path in view_files(folder):
        try:
            for view in _in_query(path) if path.suffix == ".sql" else _in_module(path):
                found.setdefault(view.name, []).append(view)
        except (ValueError, TypeError, KeyError, AttributeError, SyntaxError, OSError, BadDefinition) as error:
            log.error("%s: no DAG for the views of this file: %s", path, error)
    return {name: newest_first(views) for name, views in sorted(found.items())}


def newest_first(views: Iterable[Declared]) -> list[Declared]:
    """Returns the versions of one view, newest first; only the first one is ``newest``."""
    ordered = sorted(views, key=lambda view: -view.version)
    return [replace(view, newest=n == 0) for n, view in enumerate(ordered)]


def reprocess_dag(view: str, versions: Iterable[Declared], version: int) -> str:
    """Returns the DAG that people start for a version of a view: the one of the newest version of its kind, whose form
    offers the older ones. ``versions``: those that have DAGs, without the retired ones. (Each has a DAG of its own for
    its schedule.)"""
    left = newest_first(versions)
    kappa = next((each.kappa for each in left if each.version == version), None)
    return f"reprocess_{next((each.title for each in left if each.kappa == kappa), view)}"


def _in_module(path: Path) -> Iterator[Declared]:
    tree = ast.parse(path.read_text(), str(path))
    constants = dict(_constants(tree))
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _is_view(decorator.func):
                given = {k.arg: k.value for k in decorator.keywords if k.arg and k.arg != "sql"}
                arguments = {name: _literal(value, constants) for name, value in given.items()}
                yield _declared(arguments, ast.get_docstring(node) or "", node.lineno, path)


def _in_query(path: Path) -> Iterator[Declared]:
    read = read_sql_file(path)
    yield _declared(read.arguments, read.doc, read.line, path)


def _declared(arguments: Mapping[str, Any], doc: str, line: int, path: Path) -> Declared:
    return Declared(
        name=arguments["name"],
        version=arguments["version"],
        events=names(arguments["events"]),
        key=names(arguments["key"]),
        partition_by=arguments.get("partition_by"),
        lookback=str(arguments.get("lookback", "0 hours")),
        lookahead=str(arguments.get("lookahead", "0 hours")),
        doc=doc,
        file=path.name,
        line=line,
    )


def _is_view(function: ast.expr) -> bool:
    return (isinstance(function, ast.Name) and function.id == "view") or (
        isinstance(function, ast.Attribute) and function.attr == "view"
    )


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yields the module's constants with literal values, like ``DEPARTED = "flight.departed"``."""
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
    if isinstance(node, ast.Call):  # timedelta(hours=36): only for display
        return ast.unparse(node)
    return ast.literal_eval(node)
