"""Walk an analysed Catalyst plan from Python: its nodes, its expressions, and the source lines they come from.

The objects are py4j handles of Spark's classes, so they are ``Any`` here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.views.function_source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WATERMARK = "spark.watermarkDelayMs"


@dataclass(frozen=True, slots=True)
class ExpressionRef:
    """An expression, with its kind (``Sum``), the kind of the expression around it, and Spark's call site."""

    handle: Any
    kind: str
    parent: str
    site: str

    @property
    def name(self) -> str:
        """The SQL name: ``sum``."""
        return str(self.handle.prettyName())


def analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def nodes(plan: Any) -> Iterator[Any]:
    """Every node of the plan, top down."""
    yield plan
    for child in items(plan.children()):
        yield from nodes(child)


def expressions(node: Any) -> Iterator[ExpressionRef]:
    """Every expression of one node, outermost first."""
    for root in items(node.expressions()):
        yield from walk(root)


def walk(handle: Any, parent: str = "", site: str = "") -> Iterator[ExpressionRef]:
    """An expression and those inside it, outermost first."""
    kind = kind_of(handle)
    if kind == "AttributeReference" or kind == "Literal":
        return
    context = handle.origin().pysparkErrorContext()
    site = str(context.get()._2()) if context.isDefined() else site
    yield ExpressionRef(handle, kind, parent, site)
    for child in items(handle.children()):
        yield from walk(child, kind, site)


def kind_of(handle: Any) -> str:
    """The class name of a node or an expression. (``nodeName`` is the SQL name for some of them.)"""
    return str(handle.getClass().getSimpleName())


def items(sequence: Any) -> list[Any]:
    """A Scala Seq as a list."""
    return [sequence.apply(i) for i in range(sequence.size())]


def watermarked(expression: Any) -> bool:
    """Whether an attribute, or the alias that names it, still carries its watermark."""
    return bool(expression.toAttribute().metadata().contains(_WATERMARK)) if _is_named(expression) else False


def _is_named(expression: Any) -> bool:
    return kind_of(expression) in ("AttributeReference", "Alias")


def line_of(source: Source, found: ExpressionRef) -> int | None:
    """The line of the call that made an expression: by its name in the source, else by Spark's call site. In SQL Spark
    knows it."""
    if source.sql is not None:
        line = found.handle.origin().line()
        return source.line_in_file(int(line.get()) if line.isDefined() else None)
    columns = {str(child.sql()).strip("`").split(".")[-1] for child in items(found.handle.children())}
    # unix_timestamp() calls current_timestamp itself: then the expression around it identifies the call.
    for wanted in ({_normalised(found.name), _normalised(found.kind)}, {_normalised(found.parent)}):
        calls = [call for call in source.calls if _function_name(call) in wanted or _mentions(call, wanted)]
        exact = [call for call in calls if columns & set(_strings_in(call))]
        for call in (exact or calls)[:1]:
            return call.lineno
    file, _, line = found.site.rpartition(":")
    return int(line) if file == source.path and line.isdecimal() else None


def _function_name(call: ast.Call) -> str:
    function = call.func
    return _normalised(function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", ""))


def _mentions(call: ast.Call, wanted: set[str]) -> bool:
    """Whether a SQL string among the call's direct arguments calls one of the ``wanted`` functions."""
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return any(f"{name}(" in _normalised(text) for text in texts for name in wanted if name)


def _strings_in(call: ast.Call) -> list[str]:
    return [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _normalised(name: str) -> str:
    return name.replace("_", "").lower()
