"""The fingerprint of a definition: it changes with what is computed, never with formatting, comments, docstrings,
type hints, where it stands in its file, or by which name it imports what is ours.

It is written down beside data, so it must not depend on the version of Python: ``ast.dump`` does, so the tree is
spelled here, without empty fields.
"""

from __future__ import annotations

import ast
import hashlib
from typing import Any

from anabranch.core.old_names import first_name
from anabranch.views.definition import View
from anabranch.views.function_source import Source

_SILENT = {"ctx", "kind", "type_comment", "type_params", "annotation", "returns", "simple"}


def fingerprint(view: View, source: Source) -> str:
    """16 hex digits over the declaration, the function, and what it uses of its own module."""
    return hashlib.sha256(spelled(view, source).encode()).hexdigest()[:16]


def spelled(view: View, source: Source) -> str:
    """The text that the fingerprint is the hash of. The function's own name and decorators are not part of it."""
    declared = (view.name, view.version, view.events, view.key, view.partition_by)
    # What was declared before there was a choice keeps its fingerprint.
    refresh = [] if view.refresh == "state" and not view.closes else [f"refresh={view.refresh},{view.closes}"]
    refresh += [f"tables={view.tables}"] if view.tables else []
    times = (view.lookback.total_seconds(), view.lookahead.total_seconds())
    return "\n".join([repr(declared), repr(times), *refresh, code_text(source)])


def code_text(source: Source) -> str:
    """What a function computes: its arguments and body, and what it uses of its own module."""
    own = [_spell(source.function.args), *(_spell(node) for node in _without_docstring(source.function.body))]
    used = [f"{name}={_spell(_alone(name, node))}" for name, node in source.used]
    return "\n".join([*own, *used])


def definition_text(source: Source) -> str:
    """The same as Python for people, to show what has changed: formatted alike however it was written."""
    parts = [ast.unparse(_alone(name, node)) for name, node in source.used]
    return "\n".join([*dict.fromkeys(parts), ast.unparse(source.function)])


def _spell(node: Any) -> str:
    if isinstance(node, ast.Attribute):
        node = _by_first_name(node)
    if isinstance(node, ast.AST):
        body = {name: value for name, value in ast.iter_fields(node) if name not in _SILENT}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            body["body"] = _without_docstring(node.body)
        inner = ",".join(f"{name}:{_spell(value)}" for name, value in body.items() if value not in (None, []))
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{','.join(map(_spell, node))}]"
    return f"{type(node).__name__} {node!r}"


def _by_first_name(node: ast.Attribute) -> ast.expr:
    """``anabranch.views.processor`` as ``anabranch.views.keyed``: a module of ours that is spelled out."""
    text = ast.unparse(node)
    return node if first_name(text) == text else ast.parse(first_name(text), mode="eval").body


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def _alone(name: str, node: ast.stmt) -> ast.stmt:
    """An import without the names that aren't used, so that importing something else as well changes nothing."""
    if isinstance(node, ast.ImportFrom):
        chosen = [alias for alias in node.names if (alias.asname or alias.name) == name]
        return ast.ImportFrom(first_name(node.module or "") or None, chosen, node.level)
    if isinstance(node, ast.Import):
        chosen = [a for a in node.names if (a.asname or a.name.split(".")[0]) == name]
        return ast.Import([ast.alias(first_name(alias.name), alias.asname) for alias in chosen])
    return node
