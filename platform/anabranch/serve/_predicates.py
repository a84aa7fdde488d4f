"""Parse and validate a reader's ``where``: a predicate over the columns of one view.

DuckDB parses the text but never runs it. The syntax tree is copied node by node into a new expression, by an
allow-list: any other node (a subquery, a function that reads files, a star, a parameter) is refused, and so is what
engines would convert in different ways (``_predicate_types``). The copy is rendered for DuckDB and for Spark, so that
both evaluate the same predicate.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from anabranch.core.extras import needs_extras
from anabranch.serve._duckdb_pool import parser
from anabranch.serve._predicate_types import Kind, PredicateTypes, predicate_error

if TYPE_CHECKING:
    import duckdb

MAX_LENGTH = 4_000
_MAX_DEPTH = 60
_MAX_BETWEENS = 3
"""How often one can be inside another: each has its value twice."""
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_CONJUNCTIONS = {"CONJUNCTION_AND": " AND ", "CONJUNCTION_OR": " OR "}
_ARITHMETIC = {"+", "-", "*"}
_LIKE = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE"}
_PARTS_OF_TIMES = {"hour", "minute"}
_FUNCTIONS = {"lower", "upper", "length", "abs", "coalesce", "year", "month", "day", *_PARTS_OF_TIMES}
_TYPES = {
    "date": ("DATE", "DATE"),
    "timestamp": ("TIMESTAMPTZ", "TIMESTAMP"),
    "timestamptz": ("TIMESTAMPTZ", "TIMESTAMP"),
    "integer": ("BIGINT", "BIGINT"),
    "int": ("BIGINT", "BIGINT"),
    "bigint": ("BIGINT", "BIGINT"),
    "double": ("DOUBLE", "DOUBLE"),
    "varchar": ("VARCHAR", "STRING"),
}
_Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A validated predicate, as SQL of both engines, and its syntax tree for pushdown."""

    duckdb: str
    spark: str
    tree: Mapping[str, Any] = field(repr=False, compare=False)

    def has_times(self, schema: pa.Schema) -> bool:
        """Return whether its result may depend on a time zone: a timestamp is compared, converted, or taken apart."""
        times = {each.name.lower() for each in schema if pa.types.is_timestamp(each.type)}
        return any(_is_time(node, times) for node in _nodes(self.tree))


@needs_extras()
def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse a predicate over the columns of ``schema``. Raises BadInput WHERE_REFUSED, which says what isn't allowed;
    EXTRA_MISSING without DuckDB, whose parser it is."""
    tree, types = _syntax_tree(text), PredicateTypes(schema)
    duckdb = _Renderer("duckdb", schema, types).render(tree)
    types.check(tree)
    return Predicate(duckdb, _Renderer("spark", schema, types).render(tree), tree)


def _syntax_tree(text: str) -> _Node:
    if not text.strip() or len(text) > MAX_LENGTH or "\0" in text:
        raise predicate_error(f"a predicate has 1 to {MAX_LENGTH} characters")
    with parser() as connection:
        tree, rest = _where_clause(connection, text)
        # "1 = 1) UNION (SELECT ..." closes our bracket: the rest of the statement must be the same as with TRUE.
        if rest != _where_clause(connection, "TRUE")[1]:
            raise predicate_error("it is more than one predicate")
    return tree


def _where_clause(connection: duckdb.DuckDBPyConnection, text: str) -> tuple[_Node, Any]:
    statement = f"SELECT 1 FROM t WHERE (\n{text}\n)"  # noqa: S608 - it is parsed, and never run
    found = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchone()
    content: dict[str, Any] = json.loads(found[0]) if found else {"error": True}
    if content.get("error"):
        raise predicate_error(str(content.get("error_message", "it can't be parsed")))
    tree = content["statements"][0]["node"].pop("where_clause", None)
    if not isinstance(tree, dict):
        raise predicate_error("it isn't a predicate")
    return tree, content


def _nodes(node: Any) -> Iterator[_Node]:
    """Yield ``node`` and every node below it."""
    if isinstance(node, Mapping):
        yield node
    for child in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _nodes(child)


def _is_time(node: _Node, times: Collection[str]) -> bool:
    match node.get("class"):
        case "COLUMN_REF":
            return str(node["column_names"][0]).lower() in times
        case "CAST":
            return str(node["type_expr"]["type_name"]).lower().startswith("timestamp")
        case "FUNCTION":
            return str(node["function_name"]).lower() in _PARTS_OF_TIMES
    return False


class _Renderer:
    """Copies allowed nodes into the SQL of one engine."""

    def __init__(self, dialect: Literal["duckdb", "spark"], schema: pa.Schema, types: PredicateTypes) -> None:
        self._spark = dialect == "spark"
        self._columns: dict[str, str] = {name.lower(): name for name in schema.names}
        self._types = types
        self._depth, self._betweens = 0, 0

    def render(self, node: _Node) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise predicate_error("it is nested too deeply")
        try:
            return self._by_class(node)
        finally:
            self._depth -= 1

    def _by_class(self, node: _Node) -> str:
        match node["class"]:
            case "COMPARISON" if node["type"] in _COMPARISONS:
                left, right = self._compared([node["left"], node["right"]])
                return f"({left} {_COMPARISONS[node['type']]} {right})"
            case "CONJUNCTION":
                return f"({_CONJUNCTIONS[node['type']].join(self.render(child) for child in node['children'])})"
            case "BETWEEN":
                return self._between(node)
            case "OPERATOR":
                return self._operator(node)
            case "COLUMN_REF":
                return self._column(node["column_names"])
            case "CONSTANT":
                return self._constant(node["literal"])
            case "CAST":
                return self._cast(node)
            case "FUNCTION":
                return self._function(node)
        raise predicate_error(f"{node['class'].lower().replace('_', ' ')} is not allowed")

    def _between(self, node: _Node) -> str:
        """Two comparisons. With bounds of two types, DuckDB would convert all three values to one of them."""
        self._betweens += 1
        try:
            if self._betweens > _MAX_BETWEENS:
                raise predicate_error("it is nested too deeply")
            value, low = self._compared([node["input"], node["lower"]])
            value_again, high = self._compared([node["input"], node["upper"]])
        finally:
            self._betweens -= 1
        return f"({value} >= {low} AND {value_again} <= {high})"

    def _operator(self, node: _Node) -> str:
        children = self._compared(node["children"])
        match node["type"]:
            case "OPERATOR_NOT":
                return f"(NOT {children[0]})"
            case "OPERATOR_IS_NULL":
                return f"({children[0]} IS NULL)"
            case "OPERATOR_IS_NOT_NULL":
                return f"({children[0]} IS NOT NULL)"
            case "COMPARE_IN":
                return f"({children[0]} IN ({', '.join(children[1:])}))"
            case "OPERATOR_COALESCE":
                return f"coalesce({', '.join(children)})"
        raise predicate_error(f"{node['type'].lower()} is not allowed")

    def _compared(self, nodes: Sequence[_Node]) -> list[str]:
        """Render values that are compared with each other. DuckDB compares a column of 32-bit floats with the nearest
        float of an exact number; Spark would compare doubles, so that no row equals 0.1."""
        rendered = [self.render(node) for node in nodes]
        exact = [node["class"] == "CONSTANT" and _is_exact(text) for node, text in zip(nodes, rendered, strict=True)]
        rest = [node for node, is_exact in zip(nodes, exact, strict=True) if not is_exact]
        if not self._spark or not rest or not all(map(self._is_float, rest)):
            return rendered
        return [f"CAST('{text}' AS FLOAT)" if cast else text for text, cast in zip(rendered, exact, strict=True)]

    def _is_float(self, node: _Node) -> bool:
        return node["class"] == "COLUMN_REF" and self._types.of(node).kind is Kind.FLOAT

    def _column(self, names: Sequence[str]) -> str:
        name = self._columns.get(names[0].lower()) if len(names) == 1 else None
        if name is None:
            known = ", ".join(self._columns.values())
            raise predicate_error(f"there is no column {'.'.join(names)}; the columns are {known}")
        quote = "`" if self._spark else '"'
        return quote + name.replace(quote, quote * 2) + quote

    def _constant(self, literal: _Node) -> str:
        match literal["kind"]:
            case "STRING":
                return self._text(literal["text"])
            case "INTEGER" | "FLOAT" | "DOUBLE" | "DECIMAL" | "NUMERIC" if _is_number(literal["text"]):
                return str(literal["text"])
            case "BOOLEAN":
                return "TRUE" if literal["text"] == "true" else "FALSE"
            case "NULL_LITERAL":
                return "NULL"
        raise predicate_error(f"a constant of kind {literal['kind'].lower()} is not allowed")

    def _text(self, value: str) -> str:
        if not self._spark:
            return "'" + value.replace("'", "''") + "'"
        # Spark's string literals have backslash escapes, and its parser replaces ${...} by settings even in literals.
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"

    def _cast(self, node: _Node) -> str:
        wanted = _TYPES.get(node["type_expr"]["type_name"].lower())
        if wanted is None or node["try_cast"] or node["type_expr"].get("children"):
            raise predicate_error(f"a cast to {node['type_expr']['type_name'].lower()} is not allowed")
        child = self.render(node["child"])
        value = self._rounded(node["child"], child) if wanted[0] == "BIGINT" else child
        return f"CAST({value} AS {wanted[self._spark]})"

    def _rounded(self, node: _Node, text: str) -> str:
        """A number that is cast to an integer. DuckDB rounds, halves of doubles to the even neighbour, those of
        decimals away from zero; Spark would drop what is behind the point."""
        kind = self._types.of(node).kind if self._spark else None
        if kind in (Kind.DOUBLE, Kind.FLOAT):
            return f"rint({text})"
        return f"round({text})" if kind is Kind.DECIMAL else text

    def _function(self, node: _Node) -> str:
        name = node["function_name"].lower()
        if node["distinct"] or node["filter"] or node["schema"] or node["catalog"] or node["order_bys"]["orders"]:
            raise predicate_error(f"{name} is not allowed in this form")
        arguments = [self.render(argument["expression"]) for argument in node["arguments"]]
        if node["is_operator"] and name in _ARITHMETIC:
            return f"({f' {name} '.join(arguments)})" if len(arguments) == 2 else f"({name}{arguments[0]})"
        if node["is_operator"] and name in _LIKE:
            if "\\" in node["arguments"][1]["expression"].get("literal", {}).get("text", "\\"):
                raise predicate_error("the pattern of LIKE must be a string without a backslash")
            return f"({arguments[0]} {_LIKE[name]} {arguments[1]})"
        if not node["is_operator"] and name in _FUNCTIONS:
            return f"{name}({', '.join(arguments)})"
        raise predicate_error(f"{name} is not allowed; allowed functions are {', '.join(sorted(_FUNCTIONS))}")


def _is_number(text: str) -> bool:
    return text.isascii() and all(c.isdigit() or c in ".eE+-" for c in text) and any(c.isdigit() for c in text)


def _is_exact(text: str) -> bool:
    """Whether a constant is an integer or a decimal, and no double."""
    return _is_number(text) and "e" not in text.lower()
