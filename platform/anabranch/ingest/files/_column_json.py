"""SQL expressions (DuckDB) that make a row's canonical JSON from its columns: names sorted, no white space.

A value is never guessed. In a typed file its type says what it is in JSON; in a CSV file the contract does, and a cell
that isn't that stays a text, so that the contract's check names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from anabranch.contracts import Topic
from anabranch.contracts.fields.decimals import MAX_PRECISION
from anabranch.contracts.fields.field_types import Node
from anabranch.contracts.model.contract import sent_name
from anabranch.contracts.model.records import Mapped
from anabranch.ingest.files._json_lines import Unreadable

JSON_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_ENVELOPE: Final = (
    "id", "source", "type", "subject", "time", "senttime", "receivedtime", "dataschema", "specversion",
)  # fmt: skip
DATA: Final = "data"


def nodes_of(topic: Topic) -> dict[str, Node]:
    """The contract's node of each column of the topic's files, by its name in the records."""
    if not isinstance(topic.records, Mapped):
        return {**{name: {"type": "string"} for name in _ENVELOPE}, DATA: {"type": "object"}}
    return {sent_name(name, node): node for contract in topic.contracts for name, node in contract.fields.items()}


def check_columns(topic: Topic, names: Sequence[str]) -> None:
    """Raises Unreadable if the columns can't be a record of the topic."""
    if repeated := sorted({name for name in names if list(names).count(name) > 1}):
        raise Unreadable(f"several columns are called {', '.join(map(repr, repeated))}")
    if alike := _alike(names):
        raise Unreadable(f"columns differ only in upper and lower case: {alike}")
    if isinstance(topic.records, Mapped):
        if not set(names) & nodes_of(topic).keys():
            raise Unreadable(f"none of its columns ({_listed(names)}) is a field of the contract")
        return
    missing = [name for name in ("id", "source", "type", "time", DATA) if name not in names]
    if missing:
        raise Unreadable(
            f"records of {topic.name} are CloudEvents: it lacks the columns {', '.join(missing)} (it has "
            f"{_listed(names)})"
        )


def _alike(names: Sequence[str]) -> str:
    """The names that are one name to DuckDB, which would take one column's values for the other's."""
    lower = [name.lower() for name in names]
    return ", ".join(repr(name) for name in sorted(names) if lower.count(name.lower()) > 1)


def row_of_texts(topic: Topic, names: Sequence[str]) -> str:
    """The expression for a CSV file, whose columns are texts or null."""
    nodes = nodes_of(topic)
    return _object({name: _cell(_quoted(name), nodes.get(name, {"type": "string"})) for name in names}, topic)


def row_of_values(topic: Topic, schema: pa.Schema) -> str:
    """The expression for rows with these types. Raises Unreadable for a type that has no JSON."""
    nodes, values = nodes_of(topic), {}
    for field in schema:
        value = _value(_quoted(field.name), field.type, field.name)
        text = not isinstance(topic.records, Mapped) and field.name == DATA and _is_text(field.type)
        values[field.name] = _raw_json(_quoted(field.name)) if text else _money(value, field, nodes)
    return _object(values, topic)


def _money(value: str, field: pa.Field, nodes: Mapping[str, Node]) -> str:
    """A decimal is a text in JSON where the contract says so."""
    node = nodes.get(field.name, {})
    as_text = pa.types.is_decimal(field.type) and node.get("type") == "string"
    return f"to_json(CAST({_quoted(field.name)} AS VARCHAR))::VARCHAR" if as_text else value


def _object(values: Mapping[str, str], topic: Topic) -> str:
    if not isinstance(topic.records, Mapped) and "specversion" not in values:
        values = {**values, "specversion": "'\"1.0\"'"}
    return _joined({name: f"coalesce({value}, 'null')" for name, value in values.items()})


def _joined(values: Mapping[str, str]) -> str:
    parts = [f"{_text(json.dumps(name, ensure_ascii=False) + ':')} || {values[name]}" for name in sorted(values)]
    return "'{' || " + " || ',' || ".join(parts) + " || '}'" if parts else "'{}'"


def _cell(cell: str, node: Node) -> str:
    text = f"to_json({cell})::VARCHAR"
    match node["type"]:
        case "integer" | "number":
            number = f"regexp_matches({cell}, '{JSON_NUMBER}')"
            return f"CASE WHEN {cell} = '' THEN NULL WHEN {number} THEN {cell} ELSE {text} END"
        case "boolean":
            truth = f"lower({cell}) IN ('true', 'false')"
            return f"CASE WHEN {cell} = '' THEN NULL WHEN {truth} THEN lower({cell}) ELSE {text} END"
        case "object" | "array":
            return _raw_json(cell)
        case _:
            return text


def _raw_json(cell: str) -> str:
    """A text that is JSON itself; any other one stays a text."""
    return f"CASE WHEN json_valid({cell}) THEN {cell} ELSE to_json({cell})::VARCHAR END"


def _value(value: str, kind: pa.DataType, path: str) -> str:
    types = pa.types
    if types.is_dictionary(kind):
        return _value(value, kind.value_type, path)
    if types.is_struct(kind):
        if alike := _alike([f.name for f in kind]):
            raise Unreadable(f"column {path}: fields differ only in upper and lower case: {alike}")
        fields = {
            f.name: f"coalesce({_value(_field(value, f.name), f.type, f'{path}.{f.name}')}, 'null')" for f in kind
        }
        return f"CASE WHEN {value} IS NOT NULL THEN {_joined(fields)} END"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        name = f"x{path.count('.') + path.count('[')}"
        item = f"coalesce({_value(name, kind.value_type, f'{path}[]')}, 'null')"
        return f"'[' || array_to_string(list_transform({value}, lambda {name}: {item}), ',') || ']'"
    if types.is_map(kind):
        return _map(value, kind, path)
    if types.is_decimal(kind) and kind.precision > MAX_PRECISION:  # DuckDB would make it a double
        raise Unreadable(
            f"column {path} is a decimal of {kind.precision} digits, and at most {MAX_PRECISION} can be read"
        )
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return f"CAST({value} AS VARCHAR)"
    if types.is_floating(kind):
        text = f"CAST({value} AS VARCHAR)"
        return f"CASE WHEN isfinite({value}) THEN {text} ELSE to_json({text})::VARCHAR END"
    if _is_text(kind):
        return f"to_json({value})::VARCHAR"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return f"to_json(to_base64({value}))::VARCHAR"
    if types.is_timestamp(kind) and kind.unit == "ns":  # a cast to microseconds would round
        return f"'\"' || left(strftime({value}, '%Y-%m-%dT%H:%M:%S.%n'), -3) || 'Z\"'"
    if types.is_timestamp(kind):
        zoned = "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"  # without a zone it is UTC
        return f"'\"' || strftime(make_timestamp(epoch_us(CAST({value} AS {zoned}))), '%Y-%m-%dT%H:%M:%S.%f') || 'Z\"'"
    if types.is_date(kind):
        return f"'\"' || strftime(CAST({value} AS DATE), '%Y-%m-%d') || '\"'"
    if types.is_time(kind) or types.is_null(kind):
        return f"to_json(CAST({value} AS VARCHAR))::VARCHAR"
    raise Unreadable(f"column {path} is a {kind}, which JSON doesn't have")


def _map(value: str, kind: pa.DataType, path: str) -> str:
    """An object whose names are the keys, sorted as texts."""
    if not _is_text(kind.key_type) and not pa.types.is_integer(kind.key_type):
        raise Unreadable(f"column {path} is a map whose keys are {kind.key_type}, and names in JSON are texts")
    name = f"x{path.count('.') + path.count('[')}"
    entry = f"{{k: CAST({_field(name, 'key')} AS VARCHAR), v: {_field(name, 'value')}}}"
    pairs = f"list_transform(map_entries({value}), lambda {name}: {entry})"
    item = f"coalesce({_value(_field(name, 'v'), kind.item_type, f'{path}[]')}, 'null')"
    each = f"to_json({_field(name, 'k')})::VARCHAR || ':' || {item}"
    return f"'{{' || array_to_string(list_transform(list_sort({pairs}), lambda {name}: {each}), ',') || '}}'"


def _field(value: str, name: str) -> str:
    """A field of a struct. With a point, ``value`` could be a table or column of that name, too."""
    return f"struct_extract({value}, {_text(name)})"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
