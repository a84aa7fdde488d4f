"""The rules that ``check`` applies to analysed plans, one function each."""

from __future__ import annotations

from typing import Any

from anabranch.contracts.model.topics import Sources
from anabranch.views import _catalyst
from anabranch.views._aggregate_rules import KEEPS_FIRST, LOWER, order_dependence, type_of
from anabranch.views._catalyst import ExpressionRef, items, kind_of, line_of
from anabranch.views._collations import loose_collation
from anabranch.views.function_source import Source
from anabranch.views.model.definition import WATERMARK, Definition, View, definition_error

_NON_DETERMINISTIC = {
    *("CurrentTimestamp", "CurrentTimestampLike", "Now", "LocalTimestamp", "CurrentDate", "CurrentTime"),
    *("CurrentBatchTimestamp", "CurrentTimeZone", "CurrentUser", "SessionUser", "CurrentDatabase", "CurrentCatalog"),
    *("InputFileName", "InputFileBlockStart", "InputFileBlockLength", "SparkPartitionID", "MonotonicallyIncreasingID"),
    *("Rand", "Randn", "Uniform", "RandStr", "Uuid", "Shuffle", "DistributedSequenceID"),
}
_RELATIVE_TIMES = ("now", "today", "tomorrow", "yesterday")
_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery", "TableArgumentSubquery"}
_PYTHON = {"PythonUDF", "PythonUDAF", "PythonUDTF"}
_UNORDERED_NODES = {
    "Sample": "sample keeps different rows",
    "GlobalLimit": "limit keeps different rows",
    "LocalLimit": "limit keeps different rows",
    "Offset": "offset keeps different rows",
    "Tail": "tail keeps different rows",
    "AttachDistributedSequence": "zipWithIndex gives rows different numbers",
}
_DISTINCT = ("Distinct", "Intersect", "Except")
_STATEFUL = ("Aggregate", "Deduplicate", "Join", "TransformWithState", "FlatMapGroups")
_PURE = "compute rows from the events only; as a time use event_time"


def check_sources(view: View, plan: Any, events: Any) -> None:
    """VIEW_READS: the function reads its events and nothing else."""
    known = [node.canonicalized() for node in _catalyst.nodes(events) if node.children().size() == 0]
    for node in _catalyst.nodes(plan):
        if node.children().size() == 0 and not any(node.canonicalized().equals(source) for source in known):
            raise definition_error(
                "VIEW_READS", view, f"it reads something other than its events ({kind_of(node)})", next_step=_PURE
            )


def check_expressions(view: Definition, source: Source, plan: Any) -> None:
    """VIEW_IMPURE, VIEW_ORDER, VIEW_FLOAT: no clock, randomness or environment, and no aggregate that depends on the
    order of rows."""
    for node in _catalyst.nodes(plan):
        for found in _catalyst.expressions(node):
            _check_pure(view, source, found)
            if found.kind in ("AggregateExpression", "PythonUDAF"):
                _check_aggregate(view, source, found)


def _check_pure(view: Definition, source: Source, found: ExpressionRef) -> None:
    if found.kind in _SUBQUERIES:
        raise definition_error(
            "VIEW_READS", view, "it contains a subquery", line=line_of(source, found), next_step="write a join"
        )
    # The expression itself, not one of its arguments, is what is non-deterministic.
    itself = not found.handle.deterministic() and all(c.deterministic() for c in items(found.handle.children()))
    if found.kind in _NON_DETERMINISTIC or itself or _casts_relative_time(found):
        what = f"{found.name} gives a different result in each run"
        raise definition_error(
            "VIEW_IMPURE", view, what, line=line_of(source, found), next_step=_PURE, function=found.name
        )


def _casts_relative_time(found: ExpressionRef) -> bool:
    if found.kind != "Cast" or str(found.handle.dataType().typeName()) not in ("timestamp", "timestamp_ntz", "date"):
        return False
    child = found.handle.child()
    return kind_of(child) == "Literal" and str(child.sql()).strip("'").strip().lower().startswith(_RELATIVE_TIMES)


def _check_aggregate(view: Definition, source: Source, found: ExpressionRef) -> None:
    function = found.handle.aggregateFunction() if found.kind == "AggregateExpression" else found.handle
    problem = order_dependence(function, found.parent)
    if problem:
        code, what, instead = problem
        named = ExpressionRef(function, kind_of(function), found.parent, found.site)
        if source.sql is not None:
            instead = instead.replace("F.", "").replace("'", "")
        raise definition_error(
            code, view, what, line=line_of(source, named), next_step=f"write: {instead}", function=named.name
        )


def check_nodes(view: View, plan: Any) -> None:
    """VIEW_ORDER: no operator that keeps rows by their order."""
    for node in _catalyst.nodes(plan):
        kind = kind_of(node)
        if kind in _UNORDERED_NODES:
            what = f"{_UNORDERED_NODES[kind]} in each run"
            raise definition_error("VIEW_ORDER", view, what, next_step="remove it: the view's readers can apply it")
        _check_equality(view, node, kind)
        if kind.startswith("Deduplicate"):
            kept = {str(column.exprId()) for column in items(node.keys())}
            if any(str(column.exprId()) not in kept for column in items(node.child().output())):
                raise definition_error(
                    "VIEW_ORDER",
                    view,
                    "dropDuplicates on some columns keeps whichever row comes first",
                    next_step="landing already drops repeated events; for anything else group and take max of a struct",
                )


def _check_equality(view: View, node: Any, kind: str) -> None:
    """VIEW_ORDER: no group, and no distinct row, of texts that only a collation takes for equal."""
    if kind == "Aggregate":
        equal = items(node.groupingExpressions())
    else:
        equal = items(node.output()) if kind in _DISTINCT or kind.startswith("Deduplicate") else []
    for column in equal:
        if loose_collation(type_of(column)):
            what = f"{'a group by' if kind == 'Aggregate' else kind.lower()} {column.sql()} ({type_of(column)})"
            raise definition_error("VIEW_ORDER", view, f"{what} {KEEPS_FIRST}", next_step=f"write: {LOWER}")


def python_in(plan: Any) -> bool:
    """Whether the plan runs Python: functions are pickled again for each plan, so two plans can't be compared."""
    kinds = (f.kind for node in _catalyst.nodes(plan) for f in _catalyst.expressions(node))
    return any(kind in _PYTHON for kind in kinds) or any("Python" in n or "Pandas" in n for n in _names(plan))


def _names(plan: Any) -> list[str]:
    return [kind_of(node) for node in _catalyst.nodes(plan)]


def check_watermark(view: View, stream: Any) -> None:
    """VIEW_WATERMARK: the view sets no watermark, and every stateful operator can drop its state (unless kappa)."""
    for node in _catalyst.nodes(stream):
        kind = kind_of(node)
        if kind == "EventTimeWatermark" and (view.kappa or "EventTimeWatermark" in _names(node.child())):
            raise definition_error(
                "VIEW_WATERMARK",
                view,
                "it sets its own watermark, which drops rows that landing calls on time",
                next_step="remove withWatermark: the platform sets the topic's watermark",
            )
        if not view.kappa and _keeps_state_forever(node, kind):
            raise definition_error(
                "VIEW_WATERMARK",
                view,
                f"{kind.lower()} without a watermark keeps its state forever, and accepts rows that come too late",
                next_step="group by F.window(...) as a whole and select window.start afterwards "
                "(grouping by window.start loses the watermark), or remove partition_by: then it is a kappa view",
                operator=kind,
            )


def check_before_1970(view: View, topics: Sources, stream: Any) -> None:
    """VIEW_WATERMARK: no event that landing calls on time can be older than Spark's first watermark, which is 1970: a
    stateful operator drops what is (a kappa view has no watermark)."""
    early = [topic for topic in topics.each if topic.earliest_year < 1970]
    stateful = [kind for kind in _names(stream) if kind.startswith(_STATEFUL)]
    if early and stateful and not view.kappa:
        raise definition_error(
            "VIEW_WATERMARK",
            view,
            f"{stateful[0].lower()} in Spark's state drops events from before 1970, which topic {early[0].name} has "
            f"(earliest_year={early[0].earliest_year})",
            next_step="declare it with refresh='partitions', or set earliest_year=1970 for the topic",
            operator=stateful[0],
        )


def check_closed(view: View, stream: Any) -> None:
    """VIEW_REFRESH: in a ``closed_only`` view each event goes through a processor, and nothing else reads the
    watermark."""
    if not view.closed_only:
        return
    if not _all_through_processor(stream):
        raise definition_error(
            "VIEW_REFRESH",
            view,
            "with closes=True and refresh='state' every event has to go through anabranch.views.processor.process",
            next_step="add refresh='partitions', or remove closes",
        )
    for node in _catalyst.nodes(stream):
        for found in _catalyst.expressions(node):
            passes_on = found.kind == "Alias" and found.handle.name() == WATERMARK
            if not passes_on and WATERMARK in {str(c.name()) for c in items(found.handle.references().toSeq())}:
                raise definition_error(
                    "VIEW_REFRESH",
                    view,
                    f"{found.name} reads the column {WATERMARK}, which with refresh='state' only a processor may read",
                    next_step="use timers, or add refresh='partitions'",
                )


def _all_through_processor(plan: Any) -> bool:
    if kind_of(plan).startswith("TransformWithState"):
        return True
    children = items(plan.children())
    return bool(children) and all(map(_all_through_processor, children))


def _keeps_state_forever(node: Any, kind: str) -> bool:
    if kind == "Aggregate":
        return not any(_catalyst.watermarked(column) for column in items(node.groupingExpressions()))
    if kind == "Deduplicate":
        return not any(_catalyst.watermarked(column) for column in items(node.keys()))
    if kind == "Join":
        condition = node.condition()
        columns = items(condition.get().references().toSeq()) if condition.isDefined() else []
        return sum(_catalyst.watermarked(column) for column in columns) < 2
    return False
