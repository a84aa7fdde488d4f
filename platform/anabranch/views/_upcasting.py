"""Check an upcaster: a pure expression over one event, with the types that the next contract version declares.

As with a view, Spark's analysed plan is checked, without data, before a view that reads the event type is registered.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from anabranch.contracts import Contract, Topic, Upcaster
from anabranch.contracts.model.compatibility import allowed_from_upcaster, required_from_upcaster
from anabranch.contracts.model.topics import Sources
from anabranch.core.engine.call_sites import call_sites
from anabranch.core.errors import BadDefinition
from anabranch.ingest.landing.table.schema import arrow_type, landing_schema
from anabranch.views import _catalyst, _plan_rules
from anabranch.views._purity import check_python
from anabranch.views.function_source import Source, display_path, read
from anabranch.views.model.definition import Origin, definition_error
from anabranch.views.selection.upcast_select import complete_fields, fields_of, landed_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PURE: Final = "compute each field from the old event's fields with Spark functions: same event, same fields, always"
_WIDER: Final[Mapping[str, Collection[str]]] = {
    "bigint": ("tinyint", "smallint", "int"),
    "double": ("tinyint", "smallint", "int", "float"),
}
"""Lossless casts, by target type. An untyped null can become any type."""


@dataclass(frozen=True, slots=True)
class Step:
    """An upcaster as a ``Definition``: its location, and the contract versions that it converts from and to."""

    name: str
    version: int
    function: Callable[..., Any] = field(hash=False)
    origin: Origin
    old: Contract
    new: Contract


def steps_of(
    topics: Sources, event_types: Collection[str]
) -> Iterator[tuple[Topic, Contract, Contract, Upcaster | None]]:
    """Each pair of consecutive versions of these event types, with its upcaster; None: fields are only carried over."""
    for event_type in event_types:
        topic = topics.carrier(event_type)
        versions = topic.versions(event_type)
        for old, new in pairwise(versions):
            yield topic, old, new, topic.upcaster(event_type, old.version)


def check_upcasters(spark: SparkSession, topics: Sources, event_types: Collection[str]) -> None:
    """Raises BadDefinition for the first upcaster that fails ``check_upcaster``."""
    for topic, old, new, upcaster in steps_of(topics, event_types):
        if upcaster is not None:
            check_upcaster(spark, topic, old, new, upcaster)


def check_upcaster(spark: SparkSession, topic: Topic, old: Contract, new: Contract, upcaster: Upcaster) -> None:
    """Raises BadDefinition with file and line of the function.

    Codes: UPCASTER_SOURCE, UPCASTER_IMPURE, UPCASTER_UNSEEN, UPCASTER_FAILS (it raises), UPCASTER_ANALYSIS (Spark can't
    analyse it), UPCASTER_FIELDS, UPCASTER_REQUIRED, UPCASTER_TYPE, UPCASTER_ROWWISE (it needs more than one event, or
    Python per event), UPCASTER_READS. No Spark job runs. Not guaranteed: that the values satisfy the new contract's
    limits.
    """
    code = upcaster.function.__code__
    origin = Origin(display_path(code.co_filename), code.co_firstlineno)
    step = Step(old.name, old.version, upcaster.function, origin, old, new)
    with _upcaster_codes():
        source = read(upcaster.function)
        check_python(step, source)
        landed = spark.createDataFrame(landing_schema(topic).empty_table()).select(old.column)
        given = _given(step, source, _fields(landed, old))
        _check_fields(step, given)
        made = _selected(step, source, landed, given)
        plan = _catalyst.analysed(made)
        _check_rowwise(step, source, plan)
        _plan_rules.check_expressions(step, source, plan)
        with call_sites():
            given = step.function(_fields(landed, old))
        again = _selected(step, source, landed, given)
        if not plan.sameResult(_catalyst.analysed(again)):
            raise definition_error("VIEW_IMPURE", step, "two calls with the same fields give two different plans")
        _check_types(step, made)


@contextmanager
def _upcaster_codes() -> Iterator[None]:
    """Checks shared with views raise VIEW_ codes: here they become UPCASTER_ codes."""
    try:
        yield
    except BadDefinition as error:
        shared = error.code.startswith("VIEW_")
        raise BadDefinition(
            error.code.replace("VIEW_", "UPCASTER_", 1) if shared else error.code,
            error.what,
            state="no view that reads the event type was registered; nothing was written",
            next_step=_PURE if shared else error.next_step,
            **error.fields,
        ) from None


def _given(step: Step, source: Source, fields: Mapping[str, Column]) -> Mapping[str, Column]:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column

    try:
        with call_sites():
            given = step.function(fields)
    except AnalysisException as error:
        raise _error_at(
            "UPCASTER_ANALYSIS", step, str(error).splitlines()[0], source, error, _names(step.old)
        ) from None
    except KeyError as error:
        what = f"{step.name} v{step.old.version} has no field {error}"
        raise _error_at("UPCASTER_FAILS", step, what, source, error, _names(step.old)) from None
    except Exception as error:
        what = f"it raised {type(error).__name__}: {error}".splitlines()[0]
        raise _error_at("UPCASTER_FAILS", step, what, source, error, _names(step.old)) from error
    if not isinstance(given, Mapping) or not all(isinstance(value, Column) for value in given.values()):
        what = "it doesn't return a mapping from field name to column"
        raise definition_error("UPCASTER_FIELDS", step, what, next_step="return a dict like {'name': old['other'] * 2}")
    return given


def _fields(landed: DataFrame, old: Contract) -> Mapping[str, Column]:
    return complete_fields(old, fields_of(old, *landed_fields(landed, old)))


def _check_fields(step: Step, given: Mapping[str, Column]) -> None:
    unknown = sorted(set(given) - set(step.new.fields))
    if unknown:
        what = f"it returns {', '.join(unknown)}, which v{step.new.version} doesn't have"
        raise definition_error("UPCASTER_FIELDS", step, what, next_step=_names(step.new), fields=tuple(unknown))
    unchanged = sorted(set(given) - allowed_from_upcaster(step.old, step.new))
    if unchanged:
        what = (
            f"it returns {', '.join(unchanged)}, unchanged in both versions: such fields are carried over automatically"
        )
        hint = "remove it; if it has another meaning now, give it another name in the new version"
        raise definition_error("UPCASTER_FIELDS", step, what, next_step=hint, fields=tuple(unchanged))
    required = required_from_upcaster(step.old, step.new) | (step.new.required - set(step.old.fields))
    missing = sorted(required - set(given))
    if missing:
        raise definition_error(
            "UPCASTER_REQUIRED",
            step,
            f"it doesn't return {', '.join(missing)}, for which v{step.new.version} requires more than "
            f"v{step.old.version} guarantees",
            next_step=f"also return {', '.join(missing)}",
            fields=tuple(missing),
        )


def _selected(step: Step, source: Source, landed: DataFrame, given: Mapping[str, Column]) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return landed.select(*(column.alias(name) for name, column in given.items()))
    except AnalysisException as error:
        hint = f"take fields from the function's argument, like old['{next(iter(step.old.fields), 'x')}']"
        raise _error_at("UPCASTER_ANALYSIS", step, str(error).splitlines()[0], source, error, hint) from None


def _check_rowwise(step: Step, source: Source, plan: Any) -> None:
    for node in _catalyst.nodes(plan):
        kind = _catalyst.kind_of(node)
        if kind != "Project" and node.children().size():
            what = f"it needs more than one event, or returns more than one per event ({kind.lower()})"
            raise definition_error("UPCASTER_ROWWISE", step, what, next_step=_PURE)
        for found in _catalyst.expressions(node):
            if "Python" in found.kind or "Pandas" in found.kind:
                what, line = f"{found.name} runs Python for each event, in every path", _catalyst.line_of(source, found)
                raise definition_error("UPCASTER_ROWWISE", step, what, line=line, next_step=_PURE)


def _check_types(step: Step, made: DataFrame) -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    for column in made.schema.fields:
        wanted = from_arrow_type(arrow_type(step.new.fields[column.name])).simpleString()
        found = column.dataType.simpleString()
        if found not in (wanted, "void", *_WIDER.get(wanted, ())):
            raise definition_error(
                "UPCASTER_TYPE",
                step,
                f"{column.name} becomes {found}, v{step.new.version} declares {wanted}",
                next_step=f"end it with .cast('{wanted}') if that loses nothing",
                field=column.name,
            )


def _error_at(code: str, step: Step, what: str, source: Source, error: BaseException, next_step: str) -> BadDefinition:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == source.path]
    return definition_error(code, step, what, line=lines[-1] if lines else None, next_step=next_step)


def _names(contract: Contract) -> str:
    return f"{contract.name} v{contract.version} has: {', '.join(contract.fields)}"
