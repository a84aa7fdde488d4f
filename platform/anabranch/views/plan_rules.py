"""The rules of ``check``, one function each, over analysed plans."""

from __future__ import annotations

from typing import Any

from anabranch.views import catalyst
from anabranch.views.aggregate_rules import order_dependence
from anabranch.views.catalyst import ExpressionRef, items, kind_of, line_of
from anabranch.views.definition import WATERMARK, Defined, View
from anabranch.views.definition_errors import definition_error
from anabranch.views.function_source import Source

_CLOCK_AND_PLACE = {
    *("CurrentTimestamp", "CurrentTimestampLike", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime"),
    *("CurrentBatchTimestamp", "CurrentTimeZone", "CurrentUser", "SessionUser", "CurrentDatabase", "CurrentCatalog"),
    *("InputFileName", "InputFileBlockStart", "InputFileBlockLength", "SparkPartitionID", "MonotonicallyIncreasingID"),
    *("Rand", "Randn", "Uniform", "RandStr", "Uuid", "Shuffle"),
}
_WORDS_FOR_NOW = ("now", "today", "tomorrow", "yesterday")
_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery", "TableArgumentSubquery"}
_PYTHON = {"PythonUDF", "PythonUDAF", "PythonUDTF"}
_UNORDERED_NODES = {
    "Sample": "sample",
    "GlobalLimit": "limit",
    "LocalLimit": "limit",
    "Offset": "offset",
    "Tail": "tail",
}
_PURE = "a view is a function of its events only; for a time use event_time"


def check_sources(view: View, plan: Any, events: Any) -> None:
    """The function reads its events and nothing else."""
    known = [node.canonicalized() for node in catalyst.nodes(events) if node.children().size() == 0]
    for node in catalyst.nodes(plan):
        if node.children().size() == 0 and not any(node.canonicalized().equals(source) for source in known):
            raise definition_error(
                "VIEW_READS", view, f"it reads something else than its events ({kind_of(node)})", next_step=_PURE
            )


def check_expressions(view: Defined, source: Source, plan: Any) -> None:
    """No clock, no chance, no place, no aggregate that the order of rows decides."""
    for node in catalyst.nodes(plan):
        for found in catalyst.expressions(node):
            _check_pure(view, source, found)
            if found.kind in ("AggregateExpression", "PythonUDAF"):
                _check_aggregate(view, source, found)


def _check_pure(view: Defined, source: Source, found: ExpressionRef) -> None:
    if found.kind in _SUBQUERIES:
        raise definition_error(
            "VIEW_READS", view, "it holds a subquery", line=line_of(source, found), next_step="write a join"
        )
    lowest = not found.handle.deterministic() and all(c.deterministic() for c in items(found.handle.children()))
    if found.kind in _CLOCK_AND_PLACE or lowest or _casts_now(found):
        what = f"{found.name} gives another result in another run"
        raise definition_error(
            "VIEW_IMPURE", view, what, line=line_of(source, found), next_step=_PURE, function=found.name
        )


def _casts_now(found: ExpressionRef) -> bool:
    if found.kind != "Cast" or str(found.handle.dataType().typeName()) not in ("timestamp", "timestamp_ntz", "date"):
        return False
    child = found.handle.child()
    return kind_of(child) == "Literal" and str(child.sql()).strip("'").strip().lower().startswith(_WORDS_FOR_NOW)


def _check_aggregate(view: Defined, source: Source, found: ExpressionRef) -> None:
    function = found.handle.aggregateFunction() if found.kind == "AggregateExpression" else found.handle
    problem = order_dependence(function, found.parent)
    if problem:
        code, what, instead = problem
        named = ExpressionRef(function, kind_of(function), found.parent, found.site)
        raise definition_error(
            code, view, what, line=line_of(source, named), next_step=f"write: {instead}", function=named.name
        )


def check_nodes(view: View, plan: Any) -> None:
    """No choice among rows that the order of rows decides."""
    for node in catalyst.nodes(plan):
        kind = kind_of(node)
        if kind in _UNORDERED_NODES:
            what = f"{_UNORDERED_NODES[kind]} keeps other rows in another run"
            raise definition_error("VIEW_ORDER", view, what, next_step="leave it to the reader of the view")
        if kind.startswith("Deduplicate"):
            kept = {str(column.exprId()) for column in items(node.keys())}
            if any(str(column.exprId()) not in kept for column in items(node.child().output())):
                raise definition_error(
                    "VIEW_ORDER",
                    view,
                    "dropDuplicates on some columns keeps whichever row came first",
                    next_step="landing has dropped repeated events already; else group, and take max of a struct",
                )


def python_in(plan: Any) -> bool:
    """Whether Python runs in the plan: its functions are pickled anew at each call, so two plans can't be compared."""
    kinds = (f.kind for node in catalyst.nodes(plan) for f in catalyst.expressions(node))
    return any(kind in _PYTHON for kind in kinds) or any("Python" in n or "Pandas" in n for n in _names(plan))


def _names(plan: Any) -> list[str]:
    return [kind_of(node) for node in catalyst.nodes(plan)]


def check_watermark(view: View, stream: Any) -> None:
    """Every operator that keeps state can let go of it; a kappa view says that it doesn't."""
    for node in catalyst.nodes(stream):
        kind = kind_of(node)
        if kind == "EventTimeWatermark" and (view.kappa or "EventTimeWatermark" in _names(node.child())):
            raise definition_error(
                "VIEW_WATERMARK",
                view,
                "it sets a watermark of its own, which drops rows that landing calls on time",
                next_step="leave withWatermark out: the platform sets the topic's",
            )
        if not view.kappa and _forgets_never(node, kind):
            raise definition_error(
                "VIEW_WATERMARK",
                view,
                f"{kind.lower()} without a watermark keeps its state for ever, and rows that come too late",
                next_step="group by F.window(...) as a whole and take window.start afterwards "
                "(grouping by window.start loses the watermark), or leave partition_by out: a kappa view",
                operator=kind,
            )


def check_closed(view: View, stream: Any) -> None:
    """A view that sees only what is closed: each event goes through a processor, and nothing else knows the time."""
    if not view.closed_only:
        return
    if not _held_back(stream):
        raise definition_error(
            "VIEW_REFRESH",
            view,
            "closes=True in Spark's state is for anabranch.views.processor.process, "
            "through which every event has to go",
            next_step="add refresh='partitions', or leave closes out",
        )
    for node in catalyst.nodes(stream):
        for found in catalyst.expressions(node):
            handed_on = found.kind == "Alias" and found.handle.name() == WATERMARK
            if not handed_on and WATERMARK in {str(c.name()) for c in items(found.handle.references().toSeq())}:
                raise definition_error(
                    "VIEW_REFRESH",
                    view,
                    f"{found.name} reads the column {WATERMARK}, which only a processor knows in Spark's state",
                    next_step="use timers, or add refresh='partitions'",
                )


def _held_back(plan: Any) -> bool:
    if kind_of(plan).startswith("TransformWithState"):
        return True
    children = items(plan.children())
    return bool(children) and all(map(_held_back, children))


def _forgets_never(node: Any, kind: str) -> bool:
    if kind == "Aggregate":
        return not any(catalyst.watermarked(column) for column in items(node.groupingExpressions()))
    if kind == "Deduplicate":
        return not any(catalyst.watermarked(column) for column in items(node.keys()))
    if kind == "Join":
        condition = node.condition()
        columns = items(condition.get().references().toSeq()) if condition.isDefined() else []
        return sum(catalyst.watermarked(column) for column in columns) < 2
    return False
