"""Parses a row's key as a person types it, and converts each value to the type of its column."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from anabranch.core.errors import BadInput

_EXAMPLES = (
    (pa.types.is_timestamp, "2013-01-05T14:00:00Z"),
    (pa.types.is_date, "2013-01-05"),
    (pa.types.is_integer, "12"),
    (pa.types.is_decimal, "1.250"),
    (pa.types.is_boolean, "true"),
)


def typed_key(view: str, columns: tuple[str, ...], schema: pa.Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the key in the order of ``columns``, each value in its column's type; the text ``null`` becomes None.

    Raises BadInput KEY_UNKNOWN, KEY_INCOMPLETE or KEY_UNREADABLE, with the field ``column`` or ``columns``.
    """
    form = " ".join(f"--key {name}={_example(schema.field(name).type)}" for name in columns)
    unknown = [name for name in given if name not in columns]
    if unknown:
        raise _wrong("KEY_UNKNOWN", f"not in the key of {view}: {', '.join(map(repr, unknown))}", form, columns=unknown)
    missing = [name for name in columns if name not in given]
    if missing:
        raise _wrong("KEY_INCOMPLETE", f"the key of {view} also needs {', '.join(missing)}", form, columns=missing)
    return {name: _typed(view, name, schema.field(name).type, given[name]) for name in columns}


def key_parts(texts: list[str]) -> dict[str, str]:
    """Parses ``["origin=JFK", ...]``. Raises BadInput KEY_UNREADABLE for another form or a column given twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in found:
            what = "is given twice" if equals else "is not of the form column=value"
            raise _wrong("KEY_UNREADABLE", f"--key {text[:60]!r} {what}", "--key origin=JFK", column=name)
        found[name] = value
    return found


def _typed(view: str, name: str, kind: pa.DataType, value: Any) -> Any:
    if value is None or value == "null":
        return None
    try:
        return _read(kind, value)
    except (ValueError, InvalidOperation, OverflowError):
        raise _wrong(
            "KEY_UNREADABLE",
            f"{str(value)[:60]!r} can't be read as {kind}, the type of {name} in {view}",
            f"--key {name}={_example(kind)}",
            column=name,
        ) from None


def _read(kind: pa.DataType, value: Any) -> Any:
    text = str(value)
    if pa.types.is_timestamp(kind):
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if pa.types.is_date(kind):
        return value if type(value) is date else date.fromisoformat(text)
    if pa.types.is_integer(kind):
        return pa.scalar(int(text), kind).as_py()
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(text), kind).as_py()
    if pa.types.is_boolean(kind):
        if text.lower() not in ("true", "false"):
            raise ValueError("neither true nor false")
        return text.lower() == "true"
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return text
    raise ValueError("values of this type can't be given as text")


def _example(kind: pa.DataType) -> str:
    return next((shown for is_a, shown in _EXAMPLES if is_a(kind)), "JFK")


def _wrong(code: str, what: str, form: str, **fields: Any) -> BadInput:
    return BadInput(code, what, state="nothing was explained", next_step=f"write {form}", **fields)
