"""The fingerprint of a definition: a hash that changes with what is computed and with nothing else.

Formatting, comments, docstrings, the type hints of parameters and results, the position in the file, and old or new
names of our own modules don't change it. A hint on a variable (``limit: int = 5``) is another statement, and does. It
is stored with the data, so it must not depend on the Python version. ``ast.dump`` does; so this module serialises the
syntax tree itself, without empty fields.
"""

from __future__ import annotations

import ast
import hashlib
from typing import Any

from anabranch.core.old_names import first_name
from anabranch.views import _sql_text
from anabranch.views.function_source import Source
from anabranch.views.model.definition import View

_IGNORED_FIELDS = {"ctx", "kind", "type_comment", "type_params", "annotation", "returns", "simple"}


def fingerprint(view: View, source: Source) -> str:
    """16 hex digits over the declaration, the function, and what it uses of its own module."""
    return hashlib.sha256(fingerprint_text(view, source).encode()).hexdigest()[:16]


def fingerprint_text(view: View, source: Source) -> str:
    """The text that is hashed. The function's name and decorators are not part of it."""
    declared = (view.name, view.version, view.events, view.key, view.partition_by)
    # Defaults are left out: a view that was declared before these parameters existed keeps its fingerprint.
    refresh = [] if view.refresh == "state" and not view.closes else [f"refresh={view.refresh},{view.closes}"]
    refresh += [f"tables={view.tables}"] if view.tables else []
    times = (view.lookback.total_seconds(), view.lookahead.total_seconds())
    return "\n".join([repr(declared), repr(times), *refresh, code_text(source)])


def code_text(source: Source) -> str:
    """Serialises what a function computes: its arguments and body, and what it uses of its own module.

    Of a query in SQL: the names of its tables, and its text without comments and as one line."""
    if source.sql is not None:
        return "\n".join(["sql", *source.tables, _sql_text.normalised(source.sql)])
    own = [_serialise(source.function.args), *(_serialise(node) for node in _without_docstring(source.function.body))]
    used = [f"{name}={_serialise(_single_import(name, node))}" for name, node in source.used]
    return "\n".join([*own, *used])


def definition_text(source: Source) -> str:
    """The same as uniformly formatted Python (or SQL as it is), to show people what has changed."""
    if source.sql is not None:
        return source.sql.strip()
    parts = [ast.unparse(_single_import(name, node)) for name, node in source.used]
    return "\n".join([*dict.fromkeys(parts), ast.unparse(source.function)])


def _serialise(node: Any) -> str:
    if isinstance(node, ast.Attribute):
        node = _by_first_name(node)
    if isinstance(node, ast.AST):
        body = {name: value for name, value in ast.iter_fields(node) if name not in _IGNORED_FIELDS}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            body["body"] = _without_docstring(node.body)
        inner = ",".join(f"{name}:{_serialise(value)}" for name, value in body.items() if value not in (None, []))
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{','.join(map(_serialise, node))}]"
    return f"{type(node).__name__} {node!r}"


def _by_first_name(node: ast.Attribute) -> ast.expr:
    """Replaces ``anabranch.views.processor``, written in full, by its first name ``anabranch.views.keyed``."""
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or root.id != "anabranch":
        return node
    return ast.parse(first_name(ast.unparse(node)), mode="eval").body


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def _single_import(name: str, node: ast.stmt) -> ast.stmt:
    """Reduces an import to the one name, so that importing other names too doesn't change the fingerprint."""
    if isinstance(node, ast.ImportFrom):
        matching = [alias for alias in node.names if (alias.asname or alias.name) == name]
        return ast.ImportFrom(first_name(node.module or "") or None, matching, node.level)
    if isinstance(node, ast.Import):
        matching = [a for a in node.names if (a.asname or a.name.split(".")[0]) == name]
        return ast.Import([ast.alias(first_name(alias.name), alias.asname) for alias in matching])
    return node
