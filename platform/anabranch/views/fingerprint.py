"""The fingerprint of a definition: it changes with what is computed, never with formatting, comments or docstrings."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap

from anabranch.views.definition import View


def fingerprint(view: View) -> str:
    """16 hex digits over the declaration, the function, and what it uses of its own module."""
    module = inspect.getmodule(view.function)
    tree = (
        ast.parse(inspect.getsource(module)) if module else ast.parse(textwrap.dedent(inspect.getsource(view.function)))
    )
    bound = {name: node for node in tree.body for name in _binds(node)}
    parts, seen, waiting = [], set[str](), [view.function.__name__]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in bound:
            continue
        seen.add(name)
        node = bound[name]
        parts.append((name, ast.dump(_bare(node), annotate_fields=False)))
        waiting += sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)})
    declared = (view.name, view.version, view.events, view.key, view.partition_by, view.lookback, view.lookahead)
    return hashlib.sha256(repr((declared, sorted(parts))).encode()).hexdigest()[:16]


def _binds(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.split(".")[0] for alias in node.names]
        case _:
            return []


def _bare(node: ast.stmt) -> ast.stmt:
    """The node without its docstrings."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(inner) is not None:
            inner.body = inner.body[1:] or [ast.Pass()]
    return node
