"""Decodes Avro's binary encoding with fastavro, and writes it as a JSON document.

Schemas that contain themselves are refused, very large ones (``_extent``), and arrays of values without bytes: records
of a few bytes could ask for any depth or memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro

from anabranch.contracts.fields.decimals import MAX_PRECISION
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats._avro_values import AvroValues, NumberTooLong, least_bytes
from anabranch.contracts.formats._document import Undecodable, all_finite, decimal_number, finite
from anabranch.contracts.formats._extent import TOO_DEEP, Extent, extent_of

Change = Callable[[Any], Any]
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_TYPES: Final = ("type", "items", "values")
_PARSED: Final = "__fastavro_parsed"
_NAMES: Final = "__named_schemas"
_WITHOUT_BYTES: Final = "an array of values without bytes can't be read: a record of a few bytes could hold any number"


class AvroReader:
    """Reads the records of one schema. Raises ValueError if it is no schema, or one that can't be read here."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._parsed, self._expanded = parsed_schema(schema)
        self._change = _change(self._expanded, "data")

    def read(self, value: bytes, begin: int, of: str) -> Any:
        """What ``encode`` makes the JSON document of, for the value from ``begin`` on. Raises Undecodable; ``of`` names
        the schema in its text."""
        values = AvroValues(self._parsed, self._expanded, value, begin)
        try:
            found = values.read()
        except Exception as error:  # whatever the library makes of bytes that aren't its own
            raise Undecodable(_unread(error, values.place, of)) from None
        if (end := values.place) != len(value):
            raise Undecodable(f"not_avro: {len(value) - end} bytes behind the value, from byte {end} on ({of})")
        if not isinstance(found, dict):
            raise Undecodable(f"not_avro: the value is no record ({of})")
        if self._change is None:
            return found
        try:
            return self._change(found)
        except Undecodable:
            raise
        except Exception as error:  # whatever a value is that its schema doesn't lead to expect
            raise Undecodable(f"not_avro: a value isn't what its schema says: {type(error).__name__} ({of})") from None


def _unread(error: Exception, place: int, of: str) -> str:
    if isinstance(error, NumberTooLong):
        return f"not_avro: at byte {place} is {error} ({of})"
    if isinstance(error, EOFError):
        return f"not_avro: it ends in the middle of a value, at byte {place} ({of})"
    if isinstance(error, (KeyError, IndexError)):
        return f"not_avro: at byte {place} is a number that no branch of a union, or symbol of an enum, has ({of})"
    if isinstance(error, UnicodeDecodeError):
        return f"not_avro: a text in front of byte {place} is no UTF-8 ({of})"
    return f"not_avro: it can't be read at byte {place}: {type(error).__name__} ({of})"


@lru_cache(maxsize=256)
def avro_reader(schema: RegisteredSchema) -> AvroReader:
    """The reader of a schema; one for each in a process."""
    return AvroReader(schema)


def parsed_schema(schema: RegisteredSchema) -> tuple[Any, Any]:
    """The schema as fastavro reads by it (it can't write by it), and with each named type in place of its name. Raises
    ValueError."""
    named: dict[str, Any] = {}
    known: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(_without_decimals(_loaded(text)), named)
            fastavro.parse_schema(_loaded(text), known, expand=True, _write_hint=False)
        parsed = fastavro.parse_schema(_without_decimals(_loaded(schema.text)), named)
        # It has one object for all places of a named type, so this takes no longer than the text is.
        expanded = fastavro.parse_schema(_loaded(schema.text), known, expand=True, _write_hint=False)
        names = {name: _counted_from_0(each) for name, each in named.items()}
        strict = _counted_from_0(parsed)
    except Exception as error:  # whatever the library makes of it
        raise ValueError(f"it is no Avro schema: {type(error).__name__}: {error}") from None
    try:
        _check(expanded, {})
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    return ({**strict, _PARSED: True, _NAMES: names} if isinstance(strict, dict) else strict), expanded


def _loaded(text: str) -> Any:
    """A schema from its JSON, without logical types that are no names: Avro ignores those that it doesn't know."""
    return json.loads(text, object_hook=_without_nameless)


def _without_nameless(found: dict[str, Any]) -> dict[str, Any]:
    return found if isinstance(found.get("logicalType", ""), str) else {**found, "logicalType": ""}


def _counted_from_0(schema: Any) -> Any:
    """A parsed schema in which fastavro finds branches of unions and symbols of enums by their number only. In its
    lists it takes a negative one from the end, which Avro and the engine don't."""
    if isinstance(schema, list):
        return {"type": "union", **{number: _counted_from_0(each) for number, each in enumerate(schema)}}
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _counted_from_0(each) if name in _TYPES else each for name, each in schema.items()}
    if "fields" in schema:
        found["fields"] = [{**field, "type": _counted_from_0(field["type"])} for field in schema["fields"]]
    if "symbols" in schema:
        found["symbols"] = dict(enumerate(schema["symbols"]))
    return found


def _without_decimals(schema: Any) -> Any:
    """The schema without the logical type of decimals: fastavro rounds to the declared precision."""
    if isinstance(schema, list):
        return [_without_decimals(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _without_decimals(each) if name != "default" else each for name, each in schema.items()}
    return {name: each for name, each in kept.items() if name != "logicalType" or each != "decimal"}


def is_avro_decimal(schema: Any) -> bool:
    """Whether values are decimals: bytes that hold the digits as a whole number, with a declared scale. Of any other
    type the logical type is ignored, as Avro says."""
    return (
        isinstance(schema, Mapping)
        and schema.get("logicalType") == "decimal"
        and schema["type"] in ("bytes", "fixed")
        and "precision" in schema
    )


def _check(schema: Any, known: dict[int, Extent]) -> Extent:
    """The extent of an expanded schema. ``known``: those of definitions, by the object: each is looked at once. Raises
    ValueError for one that can't be read."""
    if isinstance(schema, str):
        if schema not in _PRIMITIVES:  # only a type that contains itself still has its name
            raise ValueError(f"{schema} contains itself, which no column can hold")
        return Extent(types=int(schema != "null"))
    if id(schema) not in known:
        known[id(schema)] = _check_definition(schema, known)
    return known[id(schema)]


def _check_definition(schema: Any, known: dict[int, Extent]) -> Extent:
    if isinstance(schema, list):
        if len(avro_branches(schema)) > 1 and any(is_avro_decimal(each) for each in schema):
            raise ValueError("a union of a decimal and another type: its values don't say which one they are")
        return extent_of((_check(branch, known) for branch in schema), own=0)
    _check_digits(schema)
    if schema["type"] in ("record", "error"):
        names = [field["name"] for field in schema["fields"]]
        if odd := [name for name in names if not isinstance(name, str)]:
            raise ValueError(f"{schema['name']}: {odd[0]!r} is no name of a field")
        if len({name.lower() for name in names}) < len(names):
            raise ValueError(f"{schema['name']}: fields differ only in upper and lower case, which engines can't")
        return extent_of(_check(field["type"], known) for field in schema["fields"])
    if schema["type"] == "array":
        found = extent_of([_check(schema["items"], known)])
        if least_bytes(schema["items"]) == 0:
            raise ValueError(_WITHOUT_BYTES)
        return found
    return extent_of([_check(schema["values"], known)]) if schema["type"] == "map" else Extent()


def _check_digits(schema: Mapping[str, Any]) -> None:
    """The numbers of a decimal, and the size of a type whose values all have the same."""
    size = schema.get("size", 0)
    if schema["type"] == "fixed" and not (isinstance(size, int) and size >= 0):
        raise ValueError(f"{schema['name']}: its size is {size!r}, which is no number of bytes")
    if is_avro_decimal(schema):
        precision, scale = schema["precision"], schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            raise ValueError(f"a decimal whose precision is {precision!r} and scale {scale!r}, not two whole numbers")
        if scale > MAX_PRECISION:
            raise ValueError(f"a decimal with a scale over {MAX_PRECISION}, which no column can hold")


def avro_branches(schema: Any) -> list[Any]:
    """The types that a value may have, besides null."""
    found = schema if isinstance(schema, list) else [schema]
    return [each for each in found if each != "null" and not (isinstance(each, Mapping) and each["type"] == "null")]


def _change(schema: Any, path: str) -> Change | None:
    """What has to be done with a decoded value so that JSON holds it exactly; None if nothing."""
    if isinstance(schema, list):
        found = avro_branches(schema)
        if len(found) == 1:
            return _unless_null(_change(found[0], path))
        needed = any(_change(each, path) is not None for each in found)
        return (lambda value: all_finite(value, path)) if needed else None
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("float", "double"):
        return lambda value: finite(value, path)
    if isinstance(schema, str):
        return None
    if is_avro_decimal(schema):
        scale = int(schema.get("scale", 0))
        return lambda value: decimal_number(value, scale, path)
    if kind in ("record", "error"):
        return _change_of_fields(schema, path)
    if kind == "array":
        return _of_items(_change(schema["items"], f"{path}[]"))
    return _of_values(_change(schema["values"], f"{path}.*")) if kind == "map" else None


def _unless_null(change: Change | None) -> Change | None:
    return None if change is None else lambda value: None if value is None else change(value)


def _of_items(change: Change | None) -> Change | None:
    return None if change is None else lambda value: [change(each) for each in value]


def _of_values(change: Change | None) -> Change | None:
    return None if change is None else lambda value: {name: change(each) for name, each in value.items()}


def _change_of_fields(schema: Any, path: str) -> Change | None:
    pairs = [(field["name"], _change(field["type"], f"{path}.{field['name']}")) for field in schema["fields"]]
    needed = [(name, each) for name, each in pairs if each is not None]

    def change(value: dict[str, Any]) -> dict[str, Any]:
        for name, each in needed:
            value[name] = each(value[name])
        return value

    return change if needed else None
