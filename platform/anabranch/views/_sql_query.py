"""Run a view that is written in SQL: the query is the view's function.

The inputs become the query's outermost WITH relations, in its parsed plan. So they have no name in the session: threads
can run the same view at once, and a stream is an input as a batch is. A query that does anything else than read its
inputs is refused before Spark analyses it; Spark would run a command right away.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.errors import BadDefinition
from anabranch.views import _sql_text
from anabranch.views._catalyst import items, kind_of, nodes, walk
from anabranch.views.function_source import Source, display_path, read
from anabranch.views.model.definition import Origin, definition_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical"
_SUBQUERIES: Final = {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery", "TableArgumentSubquery"}
_OPERATORS: Final = {
    *("Project", "Filter", "Aggregate", "UnresolvedHaving", "Distinct", "Sort", "RepartitionByExpression"),
    *("Join", "LateralJoin", "Union", "Except", "Intersect", "SubqueryAlias", "UnresolvedSubqueryColumnAliases"),
    *("Generate", "Pivot", "Unpivot", "WithWindowDefinition", "UnresolvedWith", "UnresolvedHint", "PipeOperator"),
    *("GlobalLimit", "LocalLimit", "Offset", "Sample"),
}
"""What a parsed query consists of. Others write, or run programs (``INSERT OVERWRITE DIRECTORY``, ``TRANSFORM``)."""
_LINE: Final = re.compile(r"\(line (\d+), pos \d+\)")


@dataclass(frozen=True)
class SqlQuery:
    """``text``: one query. ``tables``: what it calls the view's events, in their order. ``first_line``: the line of
    ``path`` in which the text begins; 0 if unknown. Called like an author's function, with one DataFrame per table."""

    name: str
    version: int
    origin: Origin
    path: str
    text: str
    first_line: int
    tables: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raises BadDefinition VIEW_SQL for a text that isn't one query, VIEW_EVENTS for two tables of one name."""
        if len({name.lower() for name in self.tables}) < len(self.tables):
            write = "name each event type once; if two are named alike in SQL, declare it by @view(sql=...) in Python"
            raise self._refused(f"tables {list(self.tables)}", None, write, code="VIEW_EVENTS")
        found = _sql_text.problem(self.text)
        if found:
            what, line = found
            raise self._refused(f"{what}; a view is one query", line, "write one SELECT, with WITH before it if needed")

    @property
    def function(self) -> SqlQuery:
        return self

    @property
    def __signature__(self) -> Signature:
        return Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self.tables])

    @cached_property
    def source(self) -> Source:
        """The query as ``function_source.read`` returns an author's function: its text is one constant."""
        (shell,) = ast.parse(f"def sql():\n    return {self.text!r}").body
        assert isinstance(shell, ast.FunctionDef)  # noqa: S101 - written above
        return Source(self.path, shell, (), self.text, self.first_line, self.tables)

    def __call__(self, *inputs: DataFrame) -> DataFrame:
        """The query's rows over ``inputs``. Nothing runs yet. Raises BadDefinition VIEW_SQL, VIEW_READS."""
        from pyspark.sql import DataFrame

        spark = inputs[0].sparkSession
        jvm: Any = spark._jvm
        relations = jvm.java.util.ArrayList()
        for name, rows in zip(self.tables, inputs, strict=True):
            plan = rows.alias(name)._jdf.queryExecution().analyzed()
            relations.add(jvm.scala.Tuple3(name, plan, jvm.scala.Option.empty()))
        named = jvm.scala.jdk.javaapi.CollectionConverters.asScala(relations).toSeq()
        whole = jvm.org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith(self._parsed(spark), named, False)
        dataset = jvm.org.apache.spark.sql.classic.Dataset
        session: Any = spark._jsparkSession
        analysed = dataset.ofRows(session, whole).queryExecution().analyzed()
        # WITH relations are inlined, as Spark's optimizer does later: then the plan is the one of a Python view.
        inlined = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(analysed)
        return DataFrame(dataset.ofRows(session, inlined), spark)

    def _parsed(self, spark: SparkSession) -> Any:
        """The parsed plan, which reads the inputs and nothing else."""
        from pyspark.errors import ParseException

        session: Any = spark._jsparkSession
        try:
            plan = session.sessionState().sqlParser().parsePlan(self.text)
        except ParseException as error:
            what = next(filter(None, map(str.strip, str(error).splitlines())), "it can't be parsed")
            at = _LINE.search(what)
            what = _LINE.sub("", what).strip()
            raise self._refused(what, int(at[1]) if at else None, "correct the query") from None
        found = list(_all_nodes(plan))
        known = {name.lower() for name in self.tables}
        known |= {relation._1().lower() for node in found for relation in _with_relations(node)}
        jvm: Any = spark._jvm
        commands = [jvm.java.lang.Class.forName(f"{_LOGICAL}.{name}") for name in ("Command", "ParsedStatement")]
        for node in found:
            self._check_query(node, is_command=any(each.isInstance(node) for each in commands))
        for node in found:
            self._check_reads(node, known)
        return plan

    def _check_query(self, node: Any, *, is_command: bool) -> None:
        kind = kind_of(node)
        if is_command or (node.children().size() > 0 and kind not in _OPERATORS):
            raise self._refused(
                f"{kind} is not part of a query; a view is one query", _line_of(node), "write one SELECT"
            )

    def _check_reads(self, node: Any, known: set[str]) -> None:
        for found in (each for root in items(node.expressions()) for each in walk(root)):
            if found.kind in _SUBQUERIES:
                write = "write a join; for the elements of a list, LATERAL VIEW explode(...)"
                raise self._refused("it contains a subquery", _line_of(found.handle), write, code="VIEW_READS")
        if node.children().size() > 0:
            return
        line, kind = _line_of(node), kind_of(node)
        parts = [str(part) for part in items(node.multipartIdentifier())] if kind == "UnresolvedRelation" else []
        if len(parts) != 1 or parts[0].lower() not in known:
            named = ".".join(parts) or kind.removeprefix("Unresolved")
            tables = ", ".join(self.tables)
            raise self._refused(
                f"it reads {named}, which is none of its events", line, f"the tables are: {tables}", code="VIEW_READS"
            )

    def _refused(self, what: str, line: int | None, next_step: str, code: str = "VIEW_SQL") -> BadDefinition:
        return definition_error(code, self, what, line=self.source.line_in_file(line), next_step=next_step)


def origin_of(function: Callable[..., Any]) -> Origin:
    """Where a function is declared, with its decorators."""
    return Origin(display_path(function.__code__.co_filename), function.__code__.co_firstlineno)


def query_of(function: Callable[..., Any], sql: str, name: str, version: int) -> SqlQuery:
    """The query that ``@view(sql=...)`` declares. ``function`` has no code; its parameters name the tables.

    Raises BadDefinition VIEW_SQL when it has code, or another kind of parameters.
    """
    node, origin = read(function).function, origin_of(function)
    query = SqlQuery(name, version, origin, function.__code__.co_filename, sql, _first_line(node, sql), _tables(node))
    if any(not _is_empty(statement) for statement in node.body) or not query.tables or node.args.kwonlyargs:
        raise definition_error(
            "VIEW_SQL",
            query,
            "with sql= the query is all that runs, and the function's parameters name its tables",
            next_step="leave nothing but a docstring in the function, with one parameter per event type",
        )
    return query


def _tables(node: ast.FunctionDef) -> tuple[str, ...]:
    return () if node.args.vararg or node.args.kwarg else tuple(each.arg for each in node.args.args)


def _is_empty(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def _first_line(node: ast.FunctionDef, sql: str) -> int:
    """The line in which the text of the decorator begins, if it is written there as one literal; else 0."""
    given = (k.value for call in node.decorator_list if isinstance(call, ast.Call) for k in call.keywords)
    for value in given:
        if isinstance(value, ast.Constant) and value.value == sql and value.end_lineno is not None:
            return value.lineno if value.end_lineno - value.lineno == sql.count("\n") else 0
    return 0


def _all_nodes(plan: Any) -> Iterator[Any]:
    """Every node of a parsed plan, those of WITH relations too."""
    for node in nodes(plan):
        yield node
        for relation in _with_relations(node):
            yield from _all_nodes(relation._2())


def _with_relations(node: Any) -> list[Any]:
    return items(node.cteRelations()) if kind_of(node) == "UnresolvedWith" else []


def _line_of(handle: Any) -> int | None:
    line = handle.origin().line()
    return int(line.get()) if line.isDefined() else None
