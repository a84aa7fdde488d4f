"""Find Python that takes the elements of a set in their order, which is another one in each process.

Read from the source. What gives the same result for every order (``sorted``, ``x in names``, ``isin``) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from anabranch.views.function_source import Source

_BUILTINS: Final = {"sorted", "sum", "any", "all", "min", "max", "set", "frozenset", "len"}
_METHODS: Final = {
    *("union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint"),
    *("isin", "drop", "least", "greatest", "count_distinct", "countDistinct"),
}
"""Builtins, and other functions and methods, that give the same for every order of their arguments."""
_PASSES_ON: Final = {"list", "tuple", "iter", "map", "filter"}
_IN_ORDER: Final = _PASSES_ON | {"enumerate", "zip", "reduce", "join", "str", "repr"}
"""Functions whose result has the order of an argument. ``str`` of a set names its elements in their order."""
_GIVES_SET: Final = {"union", "intersection", "difference", "symmetric_difference", "copy"}
_Code = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class SetOrder:
    """``names``: those that hold a set. ``free``: the identities of sequences whose order makes no difference."""

    names: Collection[str]
    free: AbstractSet[int]

    @classmethod
    def of(cls, source: Source, values: Mapping[str, Any]) -> SetOrder:
        """``values``: of the names outside of the function, as far as they are bound when the view is declared."""
        return cls(_names_of_sets(source, values), _free(source))

    def problem(self, node: ast.AST) -> str:
        """What of this node depends on the order of a set; empty if nothing does."""
        if id(node) in self.free:
            return ""
        ordered = next((each for each in _taken_in_order(node) if self._has_order_of_set(each)), None)
        if ordered is None:
            return ""
        what = ast.unparse(node.func) if isinstance(node, ast.Call) else f"what is made of {ast.unparse(ordered)}"
        return f"{what} depends on the order of a set, and a set has none: write sorted(...)"

    def _has_order_of_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            return self._has_order_of_set(node.generators[0].iter)
        return _is_set(node, self.names)


def _taken_in_order(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose elements this node takes one after the other."""
    match node:
        case ast.Call(func=called, args=arguments) if _function_name(called) in _IN_ORDER:
            yield from arguments
        case ast.Starred(value=value) | ast.FormattedValue(value=value):
            yield value
        case ast.For(iter=taken) | ast.AsyncFor(iter=taken):
            yield taken
        case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
            yield from (each.iter for each in node.generators)
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
            yield value


def _function_name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _is_set(node: ast.expr | None, names: Collection[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.BitXor() | ast.Sub(), right=right):
            return _is_set(left, names) or _is_set(right, names)
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _GIVES_SET:
            return _is_set(value, names)
        case _:
            return False


def _free(source: Source) -> AbstractSet[int]:
    """The arguments of what takes any order, and what these take their elements from."""
    found = set[int]()
    for tree in source.trees:
        for node in ast.walk(tree):  # from the outside to the inside
            inner = _in_any_order(node, is_free=id(node) in found)
            found.update(id(each) for each in inner if _is_sequence(each))
    return found


def _is_sequence(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _function_name(node.func) in _PASSES_ON
    return isinstance(node, ast.Starred | ast.ListComp | ast.GeneratorExp | ast.List | ast.Tuple)


def _in_any_order(node: ast.AST, *, is_free: bool) -> Iterator[ast.expr]:
    match node:
        case ast.Call(func=called, args=arguments, keywords=keywords):
            yield from (each.value for each in keywords if each.arg == "subset")  # of fillna, dropna
            name = _function_name(called)
            if is_free or name in _METHODS or (name in _BUILTINS and isinstance(called, ast.Name)):
                yield from arguments
        case ast.Compare(ops=ops, comparators=values):
            yield from (each for op, each in zip(ops, values, strict=True) if isinstance(op, ast.In | ast.NotIn))
        case ast.Set(elts=elements):
            yield from (each for each in elements if isinstance(each, ast.Starred))
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if is_free:
            yield from (each for each in elements if isinstance(each, ast.Starred))
        case ast.Starred(value=value) if is_free:
            yield value
        case ast.SetComp(generators=generators):
            yield from (each.iter for each in generators)
        case ast.ListComp(generators=generators) | ast.GeneratorExp(generators=generators) if is_free:
            yield from (each.iter for each in generators)


def _names_of_sets(source: Source, values: Mapping[str, Any]) -> Collection[str]:
    """Names that hold sets wherever they are bound: what is bound to something else as well isn't known."""
    inside = [source.function.args, *source.function.body, *(n for _, n in source.used if isinstance(n, _Code))]
    local = {name for tree in inside for name in _bound(tree)}
    outside = {name: values[name] for name, _ in source.used if name in values and name not in local}
    live = {name for name, value in outside.items() if isinstance(value, set | frozenset)}
    given = {node.arg for tree in source.trees for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bindings = list(_bindings(source))
    found = set(live)
    while True:
        others = {name for name, value in bindings if not _is_set(value, found)} | given | outside.keys()
        more = live | {name for name, _ in bindings if name not in others}
        if more == found:
            return found
        found = more


def _bindings(source: Source) -> Iterator[tuple[str, ast.expr | None]]:
    """Each name that is bound, and to what; None: to something that isn't written down as its value."""
    for tree in source.trees:
        values: dict[int, ast.expr | None] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=targets, value=value):
                    values.update((id(target), value) for target in targets)
                case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                    values[id(target)] = value
                case ast.AugAssign(target=target):  # a set stays one
                    values[id(target)] = ast.Set([])
                case ast.Name(id=name, ctx=ast.Store()):
                    yield name, values.get(id(node))


def _bound(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
