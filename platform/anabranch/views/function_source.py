"""Read a view's source: its function as a syntax tree, with everything in its own module that it uses.

Both ``fingerprint`` and ``_purity`` read this, so what is checked is what is fingerprinted.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import current_project
from anabranch.views import _sql_text
from anabranch.views._bindings import statements_of


@dataclass(frozen=True)
class Source:
    """``used``: the module's statements that bind a name which the function needs, directly or indirectly, or change
    what it holds.
    ``star_imports``: those of the module; which names they bind isn't in the source.

    Of a view in SQL: its query, the line in which that begins (0: unknown), and the names of its tables.
    """

    path: str
    function: ast.FunctionDef
    used: tuple[tuple[str, ast.stmt], ...]
    sql: str | None = None
    first_line: int = 0
    tables: tuple[str, ...] = ()
    star_imports: tuple[ast.ImportFrom, ...] = ()

    def line_in_file(self, line: int | None) -> int | None:
        """The line in the file of a line of the query."""
        return self.first_line + line - 1 if line and self.first_line else None

    @property
    def trees(self) -> tuple[ast.AST, ...]:
        """The code that runs with the view: the function without its decorators, and what it uses."""
        if self.sql is not None:
            return (*self.function.body, *self.calls)
        return (self.function.args, *self.function.body, *(node for _, node in self.used))

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        if self.sql is not None:
            return tuple(_call(*found, self) for found in _sql_text.calls(self.sql))
        return tuple(node for tree in self.trees for node in ast.walk(tree) if isinstance(node, ast.Call))

    @cached_property
    def imported(self) -> dict[str, tuple[str, int]]:
        """Local name -> (dotted path, line) of the imports that the function uses, at module level or inside it."""
        found: dict[str, tuple[str, int]] = {}
        for name, statement in self.used:
            found.update({n: at for n, at in _imports(statement).items() if n == name})
        top = [node for _, node in self.used if not isinstance(node, ast.Import | ast.ImportFrom)]
        for tree in (*self.function.body, *top):
            for node in ast.walk(tree):
                found.update(_imports(node))
        return found

    def dotted(self, node: ast.expr) -> str | None:
        """Resolves ``np.random.rand`` to ``numpy.random.rand``; None where the chain starts at no imported name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        return ".".join([self.imported[node.id][0], *reversed(parts)])


def display_path(path: str) -> str:
    """The path relative to the project's folder, if it lies inside it."""
    file = Path(path)
    project = current_project()
    return str(file.relative_to(project) if project and file.is_relative_to(project) else file)


def read(function: Callable[..., Any]) -> Source:
    """Parses the file that defines ``function``. Raises BadDefinition VIEW_SOURCE when the source can't be read.

    Cached from the declaration on: when a file is edited later, this process still runs the old code. A query in SQL
    has its source with it.
    """
    found = getattr(function, "source", None)
    return found if isinstance(found, Source) else _read(function)


@cache
def _read(function: Callable[..., Any]) -> Source:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    if not text and Path(code.co_filename).is_file():
        text = Path(code.co_filename).read_text()
    module = ast.parse(text)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and _first_line(node) == code.co_firstlineno:
            used, stars = _used(node, module, _enclosing(module, node)), tuple(_star_imports(module))
            return Source(code.co_filename, node, used, star_imports=stars)
    raise BadDefinition(
        "VIEW_SOURCE",
        f"{code.co_filename}:{code.co_firstlineno}: the source of {function.__name__} can't be read",
        next_step="write the view as a def in a file of spark_jobs/views",
        file=code.co_filename,
    )


def _used(
    function: ast.FunctionDef, module: ast.Module, around: list[ast.FunctionDef]
) -> tuple[tuple[str, ast.stmt], ...]:
    bound = statements_of([module.body, *(outer.body for outer in around)])
    found: dict[str, list[ast.stmt]] = {}
    waiting = [name for tree in (function.args, *function.body) for name in _names(tree)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in bound:
            continue
        found[name] = [node for node in bound[name] if node is not function and node not in around]
        waiting += [
            inner for node in found[name] if not isinstance(node, ast.Import | ast.ImportFrom) for inner in _names(node)
        ]
    return tuple((name, node) for name in sorted(found) for node in found[name])


def _enclosing(module: ast.Module, function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The functions that enclose a view (a view defined inside a test, for example), outermost first."""
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node is not function and any(n is function for n in ast.walk(node))
    ]


def _names(tree: ast.AST) -> list[str]:
    annotations = {id(n) for a in ast.walk(tree) for hint in _hints(a) for n in ast.walk(hint)}
    return sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in annotations})


def _hints(node: ast.AST) -> list[ast.expr]:
    """The annotations of a node; they don't change what is computed."""
    hints = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [hint for hint in hints if isinstance(hint, ast.expr)]


def _star_imports(module: ast.Module) -> Iterator[ast.ImportFrom]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield node


def _imports(node: ast.AST) -> dict[str, tuple[str, int]]:
    if isinstance(node, ast.Import):
        top = {alias.asname or alias.name.split(".")[0]: alias for alias in node.names}
        return {name: (a.name if a.asname else a.name.split(".")[0], node.lineno) for name, a in top.items()}
    if isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        return {alias.asname or alias.name: (f"{base}.{alias.name}", node.lineno) for alias in node.names}
    return {}


def _call(name: str, line: int, inside: Sequence[str], source: Source) -> ast.Call:
    """A call in a query, as one in Python: what reads calls then needs no second way."""
    at = source.line_in_file(line) or 0
    named = ast.Name(name.lower(), ast.Load(), lineno=at)
    return ast.Call(named, [ast.Constant(word) for word in inside], [], lineno=at)


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
