"""Event times that are a count of units since 1970: a whole number, a number with a fraction, a decimal, or digits in a
text. They are exact to the microsecond, by decimal arithmetic; what is below it is cut off. Twice: as a Spark
expression, and in Python for the reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts import Topic
from anabranch.contracts.fields.decimals import WrittenFloat
from anabranch.contracts.fields.field_types import is_double
from anabranch.contracts.model.contract import sent_path
from anabranch.contracts.model.records import EPOCH_SCALE, UNITS, Mapped, TimeField, node_at
from anabranch.ingest.landing.decoding._renames import json_step

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS: Final = r"-?0*[0-9]{1,19}(?:\.[0-9]+)?"
_KEPT: Final = rf"-?[0-9]+(?:\.[0-9]{{1,{EPOCH_SCALE}}})?"
_DECIMAL: Final = f"decimal({19 + EPOCH_SCALE},{EPOCH_SCALE})"
_PART: Final = f"decimal({1 + EPOCH_SCALE},{EPOCH_SCALE})"
_EXACT: Final = Context(prec=60, rounding=ROUND_FLOOR)


def needs_text(topic: Topic) -> bool:
    """Whether the event time is a double of the contract: its digits are in the text of the record only."""
    time = topic.records.time_field if isinstance(topic.records, Mapped) else None
    return time is not None and bool(time.unit) and is_double(_node(topic, time))


def time_since_1970(value: Column, topic: Topic, time: TimeField) -> Column:
    """The time in a field's value; null, and no error, for what no timestamp can hold, and for a text that isn't
    digits."""
    node = _node(topic, time)
    if node["type"] == "integer":
        return F.timestamp_micros(_micros(value, time.unit))
    exact = _exact(value, node, topic, time)
    whole = F.floor(exact)
    micros = _micros(whole.try_cast("bigint"), time.unit)
    if factor := UNITS[time.unit]:
        part = F.floor((exact - whole).cast(_PART) * F.lit(factor)).cast("bigint")
        micros = F.try_add(micros, part)
    return F.timestamp_micros(micros)


def _micros(whole: Column, unit: str) -> Column:
    if factor := UNITS[unit]:
        return F.try_multiply(whole, F.lit(factor))
    return F.call_function("div", F.try_subtract(whole, F.pmod(whole, F.lit(1_000))), F.lit(1_000))


def _exact(value: Column, node: Mapping[str, Any], topic: Topic, time: TimeField) -> Column:
    if is_double(node):
        return F.coalesce(_in_digits(_written(topic, time)), value.try_cast(_DECIMAL))
    return value.try_cast(_DECIMAL) if "format" in node else _in_digits(value)


def _written(topic: Topic, time: TimeField) -> Column:
    """The digits of a JSON number as they were written; null if it has an exponent, or a name is there twice."""
    path = "".join(json_step(name) for name in sent_path(topic.contracts[0].schema, time.path))
    found = F.try_variant_get(F.try_parse_json("_text"), f"$.data{path}", "variant")
    text = F.try_variant_get(found, "$", "string")
    return F.when(F.schema_of_variant(found).rlike("^(BIGINT|DECIMAL)"), text)


def _in_digits(text: Column) -> Column:
    return F.when(text.rlike(rf"^{_DIGITS}\z"), F.regexp_extract(text, f"^{_KEPT}", 0).try_cast(_DECIMAL))


def _node(topic: Topic, time: TimeField) -> Mapping[str, Any]:
    node = node_at(topic.contracts[0].schema, time.path)
    assert node is not None  # noqa: S101 - checked when the topic is declared
    return node


def moment_since_1970(value: Any, unit: str) -> datetime | None:
    """The same in plain Python, for a value of any of these types. Raises OverflowError for what is out of range."""
    text = _text_of(value)
    if not re.fullmatch(_DIGITS, text):
        return None
    found = re.match(_KEPT, text)
    assert found is not None  # noqa: S101 - the longer pattern has matched
    factor = Decimal(UNITS[unit]) if UNITS[unit] else Decimal("0.001")
    micros = _EXACT.multiply(Decimal(found[0]), factor).to_integral_value(ROUND_FLOOR)
    return _START + timedelta(microseconds=int(micros))


def _text_of(value: Any) -> str:
    if isinstance(value, float):
        text = value.text if isinstance(value, WrittenFloat) else repr(value)
        return format(Decimal(repr(float(value))), "f") if "e" in text.lower() else text
    return "" if isinstance(value, bool) or not isinstance(value, int | str) else str(value)
