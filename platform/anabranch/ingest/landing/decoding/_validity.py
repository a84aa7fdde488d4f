"""Decides whether a record is valid: the rules of the envelope and of the contracts, as one small Spark expression.

It runs for every record, and Spark generates and binds its code for every task of every micro-batch. So it only returns
yes or no (``_quarantine_reasons`` finds the reason for the few rejected records), evaluates a rule that several
contracts share only once, and parses a text again only if a cheaper check leaves a doubt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts import CloudEvents, Contract, Topic
from anabranch.contracts.fields.decimals import is_decimal
from anabranch.contracts.fields.field_types import is_double, is_map
from anabranch.contracts.fields.null_values import may_be_null
from anabranch.contracts.fields.restrictions import for_engines
from anabranch.contracts.fields.text_formats import is_bytes
from anabranch.contracts.model.contract import URN, sent_name
from anabranch.contracts.model.records import Mapped, Records
from anabranch.ingest.landing.decoding._append_times import is_held
from anabranch.ingest.landing.decoding._binary_mode import received_at
from anabranch.ingest.landing.decoding._decimals import exact_limit, given
from anabranch.ingest.landing.decoding._nested import breaks_array, breaks_map, fits_double, loses_item
from anabranch.ingest.landing.decoding._one_value import one_value
from anabranch.ingest.landing.decoding._renames import json_step
from anabranch.ingest.landing.decoding._text_rules import in_format, text_rules

CORRUPT: Final = "_corrupt"
CONTRACT: Final = "_contract"
"""The contract that a record follows, as its index among the topic's; null if the topic doesn't have it."""
DATA: Final = "_data"
"""The parsed data, with times, dates and decimals converted."""
TEXTS: Final = ("id", "source", "type", "subject")
SENT: Final = "_sent"
"""What the parsed text holds of SENT_TEXTS: text of headers is never another type."""
SENT_TEXTS: Final = (*TEXTS, "dataschema")
# What numbers (also beyond 64 bits), booleans, objects and arrays look like after Spark has converted them to strings.
_CONVERTED = r'(?s)^(-?[0-9.]+([eE][-+]?[0-9]+)?|"-?Infinity"|true|false|[{\[].*)\z'
_ODD_STEP: Final = re.compile(r"\['(?:\*'|\s)", re.ASCII)
_NOTHING: Final = "nothing"


def is_valid(topic: Topic) -> Column:
    """True for a valid record, false for one to quarantine; never null."""
    fields = list(_by_field(topic))
    sent = F.col(SENT)
    strings = [*((sent[name], name, None) for name in _texts(topic.records)), *_strings(topic, fields)]
    every = [
        *one_value(topic),
        *_envelope(topic),
        *(_field(topic, *field) for field in fields),
        _are_strings(strings),
        _no_value_lost(fields),
    ]
    return F.coalesce(reduce(and_, every), F.lit(False))


def is_valid_typed(topic: Topic) -> Column:
    """The same for a record whose values the decoder of its format has read, each in the type of its field; DATA has
    them, and ``_event.data`` as they were sent."""
    every = [*_envelope(topic), *(_field(topic, *field, parsed=False) for field in _by_field(topic))]
    return F.coalesce(reduce(and_, every), F.lit(False))


def _texts(records: Records) -> tuple[str, ...]:
    if isinstance(records, Mapped):
        return ()
    return SENT_TEXTS if records.schemas == "any" else TEXTS  # else only one that is known will do


def matching_contract(topic: Topic) -> Column:
    """The value of CONTRACT: the version that ``dataschema`` names, or the newest version of the type without it."""
    event_type = F.col("_event.type")
    known = [F.when((event_type == c.name) & _is_named(topic, c), place) for place, c in enumerate(topic.contracts)]
    return F.coalesce(*known, F.lit(None).cast("int"))


def _is_named(topic: Topic, contract: Contract) -> Column:
    """As ``CloudEvents.names``."""
    uri, newest = F.col("_event.dataschema"), contract == topic.newest(contract.name)
    named = (uri == contract.uri) | (uri.isNull() & F.lit(newest))
    if isinstance(topic.records, CloudEvents):
        if others := topic.records.sent_schemas(contract.version):
            named |= uri.isin(*others)
        if topic.records.schemas == "any" and newest:
            named |= ~uri.startswith(URN)
    return named


def _envelope(topic: Topic) -> Iterator[Column]:
    event, time = F.col("_event"), F.col("_event_time")
    received = received_at(topic.records)
    bound = F.expr(f"interval {int(topic.future_bound.total_seconds())} seconds")
    yield from (event[name] != "" for name in TEXTS if name != "subject")
    yield event["subject"].isNull() | (event["subject"] != "")
    yield event["specversion"].startswith("1.") & F.col("_time").isNotNull() & event["data"].isNotNull()
    yield from (event[name].isNull() | F.col(f"_{name}").isNotNull() for name in ("senttime", "receivedtime"))
    yield F.col(CONTRACT).isNotNull()
    yield (F.year(time) >= topic.earliest_year) & (time <= received + bound)
    yield (received <= F.col("append_time") + bound) & is_held()


Field = tuple[str, Mapping[str, Any], bool, list[int]]
"""A field's name, its node, whether it is required, and the indexes of the contracts that have it like this."""


def _by_field(topic: Topic) -> Iterator[Field]:
    users: dict[tuple[str, str, bool], list[int]] = {}
    for place, contract in enumerate(topic.contracts):
        for name, node in contract.fields.items():
            key = (name, json.dumps(node, sort_keys=True), name in contract.required)
            users.setdefault(key, []).append(place)
    for (name, text, required), places in users.items():
        yield name, json.loads(text), required, places


def _field(
    topic: Topic, name: str, node: Mapping[str, Any], required: bool, places: list[int], *, parsed: bool = True
) -> Column:
    path, raw = f"data{json_step(sent_name(name, node))}", F.col("_event.data")[name]
    kept = list(_field_rules(raw, F.col(DATA)[name], node, path, required, parsed=parsed))
    if not kept:
        return F.lit(True)
    holds = reduce(and_, kept)
    return holds if len(places) == len(topic.contracts) else ~F.col(CONTRACT).isin(*places) | holds


def _field_rules(
    raw: Column, value: Column, node: Mapping[str, Any], path: str, required: bool, *, parsed: bool
) -> Iterator[Column]:
    """``parsed``: whether ``raw`` is what a parser of JSON has made of it, and may be of another type."""
    kind = node["type"]
    if is_decimal(node) and parsed:
        raw = given(raw)
    if required:
        yield raw.isNotNull()
    if "format" in node or is_bytes(node):
        yield raw.isNull() | value.isNotNull()
    if kind == "array" and parsed:
        yield raw.isNull() | ~_bad_items(raw, value, node["items"], path)
    if is_map(node):
        yield raw.isNull() | ~_bad_map(raw, node)
    tests = []
    if is_double(node) and parsed:
        tests.append(fits_double(raw))
    if "enum" in node:
        tests.append(raw.isin(*map(for_engines, node["enum"])))
    if "minimum" in node:
        tests.append(value >= exact_limit(node, "minimum") if is_decimal(node) else raw >= for_engines(node["minimum"]))
    if "maximum" in node:
        tests.append(value <= exact_limit(node, "maximum") if is_decimal(node) else raw <= for_engines(node["maximum"]))
    tests += text_rules(raw, node)
    if kind == "object":
        needed = set(node.get("required", ()))
        for name, child in node.get("properties", {}).items():
            at = path + json_step(sent_name(name, child))
            tests += _field_rules(raw[name], value[name], child, at, name in needed, parsed=parsed)
    if tests:
        yield raw.isNull() | reduce(and_, tests)


def _no_value_lost(fields: list[Field]) -> Column:
    """Whether Spark's parser, after an error, lost no value of the event's own fields: the error may be in a field of
    another type."""
    lost = [
        raw.isNull() & _is_given(path) & F.col(CONTRACT).isin(*places)
        for name, node, _, places in fields
        for raw, path in _leaves(F.col("_event.data")[name], node, f"data{json_step(sent_name(name, node))}")
    ]
    readable = F.try_parse_json("_text").isNotNull()
    return ~F.col(CORRUPT) | (readable & ~reduce(or_, lost, F.lit(False)))


def _is_given(path: str) -> Column:
    """Whether the record has a value at ``path`` that isn't null. ``get_json_object`` passes over blanks in front of a
    name, and takes a star for any name; the path of a variant doesn't, but the text is parsed as a whole for it."""
    if _ODD_STEP.search(path):
        return ~_kind(path).isin(_NOTHING, "VOID")
    return F.get_json_object(F.col("_text"), f"$.{path}").isNotNull()


def _leaves(raw: Column, node: Mapping[str, Any], path: str) -> Iterator[tuple[Column, str]]:
    yield raw, path
    for name, child in node.get("properties", {}).items() if node["type"] == "object" else ():
        yield from _leaves(raw[name], child, path + json_step(sent_name(name, child)))


Text = tuple[Column, str, list[int] | None]
"""A string field: its value, its path, and the indexes of the contracts that have it; None for all of them."""


def _strings(topic: Topic, fields: list[Field]) -> Iterator[Text]:
    """Each path once, even if several contracts have a string there.

    An older version may lack a field of a newer one, and its events may hold anything there.
    """
    several = len(topic.event_types) < len(topic.contracts)
    found: dict[str, tuple[Column, list[int]]] = {}
    for name, node, _, places in fields:
        at = f"data{json_step(sent_name(name, node))}"
        for raw, path, kind in _string_paths(F.col("_event.data")[name], node, at):
            if kind == "string":
                found.setdefault(path, (raw, []))[1].extend(places)
    for path, (raw, places) in found.items():
        yield raw, path, places if several and len(set(places)) < len(topic.contracts) else None


def _string_paths(raw: Column, node: Mapping[str, Any], path: str) -> Iterator[tuple[Column, str, str]]:
    if node["type"] == "string" and "format" not in node:
        yield raw, path, "string"
    for name, child in node.get("properties", {}).items() if node["type"] == "object" else ():
        yield from _string_paths(raw[name], child, path + json_step(sent_name(name, child)))


def _are_strings(strings: list[Text]) -> Column:
    """Whether JSON held strings where strings are declared: Spark silently turns ``12`` into ``"12"``.

    Most values can only be strings. For the others a search in the text looks for one of our names in front of
    something other than a quote (or null); only then, or if names may be written with escapes, is the text parsed
    again.
    """
    if not strings:
        return F.lit(True)
    names = sorted({_last_name(path) for _, path, _ in strings})
    doubt = F.col("_text").rlike(rf'"(?:{"|".join(map(re.escape, names))})"\s*:\s*[^"\sn]')
    doubt |= F.col("_text").contains("\\u")
    if any("/" in name for name in names):
        doubt |= F.col("_text").contains("\\/")
    odd = reduce(or_, (F.coalesce(_looks_converted(raw), F.lit(False)) for raw, _, _ in strings))
    kept = [_is_text(*text) for text in strings]
    return ~odd | ~doubt | reduce(and_, (F.coalesce(holds, F.lit(True)) for holds in kept))


def _last_name(path: str) -> str:
    return path[:-2].rpartition("['")[2] if path.endswith("']") else path.rpartition(".")[2]


def _is_text(raw: Column, path: str, places: list[int] | None) -> Column:
    text = ~raw.rlike(_CONVERTED) | (_kind(path) == "STRING")
    return text if places is None else ~F.col(CONTRACT).isin(*places) | text


def _looks_converted(text: Column) -> Column:
    """Whether a text matches _CONVERTED. A comparison of bytes avoids the regular expression for most texts: the
    characters that a number can begin with sort before ':'."""
    first = (text < ":") | text.isin("true", "false") | text.startswith("{") | text.startswith("[")
    return first & text.rlike(_CONVERTED)


def _bad_items(raw: Column, value: Column, items: Mapping[str, Any], path: str) -> Column:
    """Whether an array holds an item of another type, or a null that its contract doesn't allow.

    In an array of objects it is unknown where the parser failed: so the record is rejected if anything in it failed to
    parse, even in a field that only another version of the contract has.
    """
    if items["type"] in ("object", "array"):
        return F.col(CORRUPT) | breaks_array(raw, items)
    if is_double(items):
        return breaks_array(raw, items)
    nulls = may_be_null(items)
    bad = loses_item(raw, value, items) if nulls else F.exists(value, lambda item: in_format(item, items).isNull())
    if items["type"] == "string" and "format" not in items:
        converted = F.exists(raw, lambda item: item.rlike(_CONVERTED))
        return bad | ((F.coalesce(converted, F.lit(False)) if nulls else converted) & (_kind(path) != "ARRAY<STRING>"))
    return bad


def _bad_map(raw: Column, node: Mapping[str, Any]) -> Column:
    """The same for a map. One whose values hold no others is null if the parser failed in it."""
    bad = breaks_map(raw, node)
    return bad | F.col(CORRUPT) if node["additionalProperties"]["type"] in ("object", "array") else bad


def _kind(path: str) -> Column:
    """The JSON type of the value at ``path``; _NOTHING if there is none."""
    found = F.try_variant_get(F.try_parse_json("_text"), f"$.{path}", "variant")
    return F.coalesce(F.schema_of_variant(found), F.lit(_NOTHING))
