"""Why a record can't be landed as valid: the envelope's rules, and the contracts', as one Spark expression.

What several contracts of a topic say alike of a field is judged once: a topic of many event types that share their
fields costs little more than one of a few.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.events import Contract, Topic

CORRUPT: Final = "_corrupt"
END: Final = "_end"
CONTRACT: Final = "_contract"
"""Which contract a record follows, as ``type:version``; null when the topic doesn't know it."""
DATA: Final = "_data"
"""The data as parsed, with times and dates as such."""
# What a number, a truth value, an object or an array looks like once Spark has made a string of it.
_NO_STRING = r"^(-?[0-9.]+([eE][-+]?[0-9]+)?|true|false|[{\[].*)$"

Rule = tuple[Column, Column]


def reason(topic: Topic) -> Column:
    """The first rule that a record breaks, for people; null for a valid record."""
    rules = [*_unreadable(), *_envelope(topic)]
    broken = F.coalesce(*(F.when(condition, F.concat(F.lit("contract: "), text)) for condition, text in _broken(topic)))
    return F.coalesce(*(F.when(condition, text) for condition, text in rules), broken)


def follows(topic: Topic) -> Column:
    """The value of CONTRACT: what ``dataschema`` names, the newest version of the type where it says nothing."""
    event_type, said = F.col("_event.type"), F.col("_event.dataschema")
    known = [
        F.when((event_type == c.name) & ((said == c.uri) | (said.isNull() & F.lit(c == topic.newest(c.name)))), _key(c))
        for c in topic.contracts
    ]
    return F.coalesce(*known, F.lit(None).cast("string"))


def _key(contract: Contract) -> str:
    return f"{contract.name}:{contract.version}"


def _unreadable() -> list[Rule]:
    text = F.col("_text")
    unread = F.col("_event").isNull() | F.col(END).isNull()
    return [
        (F.col("value").isNull(), F.lit("empty: the record has no value")),
        (~F.is_valid_utf8(text), F.lit("not_utf8: the value is no UTF-8 text")),
        (
            unread | (F.col(CORRUPT) & F.try_parse_json(text).isNull()),
            F.lit("not_json: the value is no JSON object"),
        ),
    ]


def _envelope(topic: Topic) -> Iterator[Rule]:
    event, time = F.col("_event"), F.col("_event_time")
    received = F.coalesce(F.col("_receivedtime"), F.col("append_time"))
    bound = F.expr(f"interval {int(topic.future_bound.total_seconds())} seconds")
    for name in ("id", "source", "type", "subject"):
        yield F.coalesce(event[name] == "", F.lit(True)), F.lit(f"envelope: {name} is missing")
        yield _no_string(event[name], name), F.lit(f"envelope: {name} is no string")
    yield ~F.coalesce(event["specversion"].startswith("1."), F.lit(False)), F.lit("envelope: specversion is not 1.0")
    yield F.col("_time").isNull(), F.lit("envelope: time is missing or unreadable")
    for name in ("senttime", "receivedtime"):
        yield event[name].isNotNull() & F.col(f"_{name}").isNull(), F.lit(f"envelope: {name} is unreadable")
    unknown = ~event["type"].isin(*topic.event_types)
    yield unknown, F.concat(F.lit("unknown_type: "), F.substring(event["type"], 1, 80))
    schema = F.substring(event["dataschema"], 1, 120)
    yield F.col(CONTRACT).isNull(), F.concat(F.lit("unknown_contract: "), schema)
    yield time.isNull() | (F.year(time) < topic.earliest_year), F.lit(f"absurd_time: before {topic.earliest_year}")
    ahead = (time > received + bound) | (received > F.col("append_time") + bound)
    yield ahead, F.lit(f"absurd_time: over {topic.future_bound} ahead of its receipt")
    yield event["data"].isNull(), F.lit("contract: data is missing or no object")


def _broken(topic: Topic) -> Iterator[Rule]:
    """The rules of every field of every contract; equal ones of several contracts are one rule."""
    users: dict[tuple[str, str, bool], list[str]] = {}
    for contract in topic.contracts:
        for name, node in contract.fields.items():
            key = (name, json.dumps(node, sort_keys=True), name in contract.required)
            users.setdefault(key, []).append(_key(contract))
    for (name, text, required), keys in users.items():
        raw, value = F.col("_event.data")[name], F.col(DATA)[name]
        rules = list(_field(raw, value, json.loads(text), f"data.{name}", required))
        broken = F.coalesce(*(F.when(condition, F.lit(said)) for condition, said in rules))
        every = len(keys) == len(topic.contracts)
        yield (F.lit(True) if every else F.col(CONTRACT).isin(*keys)) & broken.isNotNull(), broken


def _field(
    raw: Column, value: Column, node: Mapping[str, Any], path: str, required: bool
) -> Iterator[tuple[Column, str]]:
    kind = node["type"]
    said = F.get_json_object(F.col("_text"), f"$.{path}").isNotNull()
    yield F.col(CORRUPT) & raw.isNull() & said, f"{path} is no {node.get('format', kind)}"
    if required:
        yield raw.isNull(), f"{path} is missing"
    if "format" in node:
        yield raw.isNotNull() & value.isNull(), f"{path} is no {node['format']}"
    elif kind == "string":
        yield _no_string(raw, path), f"{path} is no string"
    if kind == "array":
        yield _bad_items(raw, value, node["items"], path), f"{path} holds what is no {node['items']['type']}"
    if "enum" in node:
        yield ~raw.isin(*node["enum"]), f"{path} is none of {node['enum']}"
    if "minimum" in node:
        yield raw < node["minimum"], f"{path} is below {node['minimum']}"
    if "maximum" in node:
        yield raw > node["maximum"], f"{path} is above {node['maximum']}"
    if "pattern" in node:
        yield ~raw.rlike(_java(node["pattern"])), f"{path} doesn't match {node['pattern']}"
    if kind == "object":
        needed = set(node.get("required", ()))
        for name, child in node.get("properties", {}).items():
            inner = _field(raw[name], value[name], child, f"{path}.{name}", name in needed)
            yield from ((raw.isNotNull() & condition, text) for condition, text in inner)


def _no_string(value: Column, path: str) -> Column:
    """Whether JSON held something else than a string: Spark makes ``"12"`` of ``12`` without a word.

    The text is parsed again only when a look at it can't tell: the name stands in it twice, or with escapes.
    """
    text, quoted = F.col("_text"), f'"{path.rsplit(".", 1)[-1]}"'
    once = F.octet_length(F.replace(text, F.lit(quoted), F.lit(""))) == F.octet_length(text) - len(quoted)
    plainly = (text.contains(f'{quoted}:"') | text.contains(f'{quoted}: "')) & once & ~text.contains("\\")
    return value.rlike(_NO_STRING) & ~plainly & (_kind(path) != "STRING")


def _bad_items(raw: Column, value: Column, items: Mapping[str, Any], path: str) -> Column:
    """Whether an array holds a null or an item of another type. Strings inside of its objects are not looked at."""
    bad = F.exists(value, lambda item: item.isNull())
    if items["type"] in ("object", "array"):
        return bad | (raw.isNotNull() & F.col(CORRUPT))
    if items["type"] == "string" and "format" not in items:
        return bad | (F.exists(raw, lambda item: item.rlike(_NO_STRING)) & (_kind(path) != "ARRAY<STRING>"))
    return bad


def _kind(path: str) -> Column:
    """The type that JSON gives the value at ``path``. The text is parsed again for it, so only doubtful values ask."""
    found = F.try_variant_get(F.try_parse_json("_text"), f"$.{path}", "variant")
    return F.coalesce(F.schema_of_variant(found), F.lit("unreadable"))


def _java(pattern: str) -> str:
    """A pattern as Java reads it: its ``$`` would also match in front of a last line break."""
    return pattern[:-1] + r"\z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern
