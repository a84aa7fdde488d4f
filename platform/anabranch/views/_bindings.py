"""Which statements of a module give a name its meaning: those that bind it, and those that change what it holds.

``T.limit = 5``, ``T.codes["AA"] = 1``, ``setattr(T, "limit", 5)`` and ``@convert.register`` bind no name, and change
what a view computes. What a function changes when it is called isn't followed, nor are calls of libraries about
themselves (``pd.set_option(...)``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Import = ast.Import | ast.ImportFrom
_HARMLESS = {"print", "view"}
"""Calls that change nothing: ``view(...)(function)`` declares a view."""


def statements_of(bodies: Sequence[Sequence[ast.stmt]]) -> dict[str, list[ast.stmt]]:
    """The statements of each name, in their order: of a module's body, and of the functions around a view."""
    bound: dict[str, list[ast.stmt]] = {}
    for statement in (each for body in bodies for each in body):
        for name in binds(statement):
            bound.setdefault(name, []).append(statement)
    found: dict[str, list[ast.stmt]] = {}
    for n, body in enumerate(bodies):
        for statement in body:
            changed = {name for name in _changes(statement, bound) if name in bound} if n == 0 else set()
            for name in binds(statement) | changed:
                found.setdefault(name, []).append(statement)
    return found


def binds(statement: ast.stmt) -> set[str]:
    """The names that a statement binds in its own scope."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While() | ast.Match():
            inner = {name for child in ast.walk(statement) if child is not statement for name in _stored(child)}
            return inner | {n for child in ast.walk(statement) if isinstance(child, Function) for n in (child.name,)}
        case _:
            return {name for child in ast.walk(statement) for name in _stored(child)}


def _stored(node: ast.AST) -> set[str]:
    match node:
        case ast.Import() | ast.ImportFrom():
            return binds(node)
        case ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return {name}
        case _:
            return set()


def _changes(statement: ast.stmt, bound: Mapping[str, Sequence[ast.stmt]]) -> set[str]:
    """The names whose objects a statement may change, without binding them."""
    if isinstance(statement, _Definition):
        roots = {_root(each) for each in statement.decorator_list if isinstance(_called(each), ast.Attribute)}
        return {name for name in roots if _can_change(bound.get(name, ()))} - {statement.name}
    if _is_main(statement):
        return set()
    nodes = list(_here(statement))
    stored = {
        _root(n) for n in nodes if isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load)
    }
    called = [n.value for n in nodes if isinstance(n, ast.Expr) and not _HARMLESS & set(_chain(n.value))]
    called += [n.iter for n in nodes if isinstance(n, ast.For)] if called else []
    mentioned = {n.id for each in called for n in _here(each) if isinstance(n, ast.Name)}
    return stored | {name for name in mentioned if _can_change(bound.get(name, ()))}


def _here(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run with the module: not those inside of functions."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, _Scope):
            yield from _here(child)


def _is_main(statement: ast.stmt) -> bool:
    match statement:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case _:
            return False


def _can_change(bindings: Sequence[ast.stmt]) -> bool:
    """Whether what a name holds may change: it is no library's, and no constant like ``5`` or ``("AA", "UA")``."""
    return any(not isinstance(each, _Import) and not _is_constant(each) for each in bindings)


def _is_constant(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    plain = ast.Constant | ast.Tuple | ast.UnaryOp | ast.BinOp | ast.expr_context | ast.operator | ast.unaryop
    return all(isinstance(node, plain) for node in ast.walk(statement.value))


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _root(node: ast.expr) -> str:
    """The name with which ``a.b["c"].d(...)`` begins; empty if it begins with something else."""
    return _chain(node)[0]


def _chain(node: ast.expr) -> list[str]:
    """``a``, ``b``, ``d`` of ``a.b["c"].d(...)``."""
    names = list[str]()
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        names += [node.attr] if isinstance(node, ast.Attribute) else []
        node = node.func if isinstance(node, ast.Call) else node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(names)]
