"""Reads view declarations from their source without running it: of ``.sql`` files the header.

A DAG file is parsed every few seconds. Importing the views would import pyspark each time and run authors' code in
Airflow's own process, so only the literals of each ``@view(...)`` are read, and the constants of its file. A name and a
version are needed; of the rest, which DAGs only show, the source stands for what can't be read. Registration, in the
first task of a run, decides whether a definition is valid.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import view_files
from anabranch.core.settings import SAFE_NAME
from anabranch.views.model.definition import names
from anabranch.views.sql_file import read_sql_file

log = logging.getLogger(__name__)
_UNREAD = (ValueError, TypeError, KeyError, AttributeError, SyntaxError, OSError, BadDefinition)
_SHOWN = ("events", "key", "partition_by", "lookback", "lookahead")
_LONG = 80
"""Airflow's tags have 100 characters at most."""


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

    What can't be read is skipped and logged as an error: it must not remove the other views' DAGs.
    """
    found, unread = read_views(folder)
    for place, why in unread.items():
        log.error("%s: no DAG for what is declared there: %s", place, why)
    return found


def read_views(folder: Path) -> tuple[dict[str, list[Declared]], dict[str, str]]:
    """Returns the views as ``declared_views`` does, and why the others have no DAG, by file or ``file:line``."""
    found, unread = dict[str, list[Declared]](), dict[str, str]()
    for path in view_files(folder):
        try:
            for place, read in _in_query(path) if path.suffix == ".sql" else _in_module(path):
                try:
                    view = read()
                    found.setdefault(view.name, []).append(view)
                except _UNREAD as error:
                    unread[place] = str(error)
        except _UNREAD as error:
            unread[str(path)] = str(error)
    return {name: newest_first(views) for name, views in sorted(found.items())}, unread


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


def _in_module(path: Path) -> Iterator[tuple[str, Callable[[], Declared]]]:
    tree = ast.parse(path.read_text(), str(path))
    constants = dict(_constants(tree))
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _is_view(decorator.func):
                yield f"{path}:{node.decorator_list[0].lineno}", partial(_decorated, node, decorator, constants, path)


def _decorated(node: ast.FunctionDef, view: ast.Call, constants: Mapping[str, Any], path: Path) -> Declared:
    given = {keyword.arg: keyword.value for keyword in view.keywords if keyword.arg}
    arguments = {name: _needed(name, given, constants) for name in ("name", "version")}
    arguments |= {name: _shown(given[name], constants) for name in _SHOWN if name in given}
    return _declared(arguments, ast.get_docstring(node) or "", node.lineno, path)


def _in_query(path: Path) -> Iterator[tuple[str, Callable[[], Declared]]]:
    read = read_sql_file(path)
    yield str(path), partial(_declared, read.arguments, read.doc, read.line, path)


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
    """Yields the module's constants with literal values, like ``DEPARTED: Final = "flight.departed"``."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                with suppress(ValueError):
                    if isinstance(target, ast.Name):
                        yield target.id, ast.literal_eval(node.value)


def _needed(argument: str, given: Mapping[str, ast.expr], constants: Mapping[str, Any]) -> Any:
    try:
        return _literal(given[argument], constants)
    except (KeyError, ValueError):
        written = ast.unparse(given[argument]) if argument in given else "missing"
        raise ValueError(f"{argument} ({written}) is no literal, and no constant of this file") from None


def _shown(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """The value, part by part; where it isn't in this file (an imported name), its source."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_shown(item, constants) for item in node.elts]
    try:
        return _literal(node, constants)
    except (KeyError, ValueError):
        return ast.unparse(node)[:_LONG]


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return constants[node.id]
    return ast.literal_eval(node)
