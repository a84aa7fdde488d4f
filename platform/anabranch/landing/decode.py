"""From the bytes of a record to its envelope, its typed data and, where it can't be read, the reason.

All of it is native Spark: the value is parsed once, with one schema that holds the fields of every event type of
the topic; only what that parse finds suspicious is looked at a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.errors import BadDefinition
from anabranch.events import Contract, Topic
from anabranch.landing.schema import PARTITION, QUARANTINED, VALID, spark_ddl

ENVELOPE = {
    "specversion": "string",
    "id": "string",
    "source": "string",
    "type": "string",
    "subject": "string",
    # Spark would make a time of a number, too.
    "time": "string",
    "senttime": "string",
    "receivedtime": "string",
    "dataschema": "string",
}
TIMES = ("time", "senttime", "receivedtime")
_CORRUPT = "_corrupt"
_END = "_end"
# Spark's defaults read more than JSON: 'single quotes', NaN, and "Infinity" as a number.
_STRICT = {"columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_DATE_TIME = r"^(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})\z"
_DATE = r"^\d{4}-\d{2}-\d{2}\z"
# What a number, a truth value, an object or an array looks like once Spark has made a string of it.
_NO_STRING = r"^(-?[0-9.]+([eE][-+]?[0-9]+)?|true|false|[{\[].*)$"


def decode(records: DataFrame, topic: Topic) -> DataFrame:
    """The landing columns of ``records`` (topic, partition, offset, append_time, key, value) but for epoch and late.

    A quarantined record keeps its coordinates, bytes and reason, and its type and subject where they could be read.
    """
    texts = records.withColumn("_text", F.col("value").cast("string"))
    # Inside of another object nothing may follow the event: Spark reads the first value of a text and stops there.
    wrapped = F.concat(F.lit('{"event":'), F.col("_text"), F.lit(f',"{_END}":true}}'))
    parsed = texts.withColumn("_parsed", F.from_json(wrapped, _schema(topic), _STRICT)).select(
        "*",
        F.col("_parsed.event").alias("_event"),
        F.col(f"_parsed.{_END}"),
        F.col(f"_parsed.{_CORRUPT}").isNotNull().alias(_CORRUPT),
    )
    read = parsed.select("*", *(_time_of(F.col(f"_event.{name}")).alias(f"_{name}") for name in TIMES))
    timed = read.withColumn("_event_time", _event_time())
    judged = timed.withColumn("reason", _reason(topic))
    valid = F.col("reason").isNull()
    when_valid = [
        ("event_id", F.col("_event.id")),
        ("source", F.col("_event.source")),
        ("contract_version", _version(topic)),
        ("device_time", F.col("_time")),
        ("senttime", F.col("_senttime")),
        ("receivedtime", F.col("_receivedtime")),
        ("event_time", F.col("_event_time")),
    ]
    typed = [
        F.when(valid & (F.col("_event.type") == t), _data(topic.newest(t))).alias(topic.newest(t).column)
        for t in topic.event_types
    ]
    return judged.select(
        *(F.col(c) for c in ("topic", "partition", "offset", "append_time", "key", "value")),
        F.when(valid, F.lit(VALID)).otherwise(F.lit(QUARANTINED)).alias("decision"),
        F.col("reason"),
        F.col("_event.type").alias("type"),
        F.col("_event.subject").alias("subject"),
        *(F.when(valid, column).alias(name) for name, column in when_valid),
        *typed,
        F.when(valid, F.to_date(F.col("_event_time"))).alias(PARTITION),
    )


def _schema(topic: Topic) -> str:
    fields: dict[str, str] = {}
    for contract in topic.contracts:
        for name, node in contract.fields.items():
            ddl = spark_ddl(_as_text(node))
            if fields.setdefault(name, ddl) != ddl:
                raise BadDefinition(
                    "FIELD_TYPES_CLASH",
                    f"topic {topic.name}: field {name!r} is {fields[name]} in one contract and {ddl} in {contract.uri}",
                    next_step="give one of them another name, or put them on two topics",
                )
    data = ", ".join(f"`{name}`: {ddl}" for name, ddl in fields.items())
    envelope = ", ".join(f"`{name}` {ddl}" for name, ddl in ENVELOPE.items())
    return f"event struct<{envelope}, data struct<{data}>>, {_END} boolean, {_CORRUPT} string"


def _as_text(node: Mapping[str, Any]) -> dict[str, Any]:
    """A contract's node with its times and dates as plain strings: Spark's parser makes a time of "2013", too."""
    text = {key: value for key, value in node.items() if key != "format"}
    if "properties" in node:
        text["properties"] = {name: _as_text(child) for name, child in node["properties"].items()}
    if "items" in node:
        text["items"] = _as_text(node["items"])
    return text


def _data(contract: Contract) -> Column:
    data = F.col("_event.data")
    return F.struct(*(_typed(data[name], node).alias(name) for name, node in contract.fields.items()))


def _typed(value: Column, node: Mapping[str, Any]) -> Column:
    """A parsed value with its times and dates as such; null in the place of one that can't be read."""
    if _as_text(node) == node:
        return value
    match node["type"], node.get("format"):
        case "object", _:
            fields = (_typed(value[name], child).alias(name) for name, child in node["properties"].items())
            return F.when(value.isNotNull(), F.struct(*fields))
        case "array", _:
            return F.transform(value, lambda item: _typed(item, node["items"]))
        case _, "date-time":
            return _time_of(value)
        case _, "date":
            return F.when(value.rlike(_DATE), value.try_cast("date"))
        case _:
            return value


def _time_of(text: Column) -> Column:
    """The time that an RFC 3339 text says, to the microsecond; null when it is none."""
    return F.when(text.rlike(_DATE_TIME), F.try_to_timestamp(text))


def _event_time() -> Column:
    """``time + (receivedtime - senttime)`` when the device said when it sent; without receivedtime the append time."""
    received = F.coalesce(F.col("_receivedtime"), F.col("append_time"))
    shift = F.unix_micros(received) - F.unix_micros(F.col("_senttime"))
    corrected = F.timestamp_micros(F.unix_micros(F.col("_time")) + shift)
    return F.when(F.col("_senttime").isNull(), F.col("_time")).otherwise(corrected)


def _version(topic: Topic) -> Column:
    """The contract version that ``dataschema`` names; the newest where it says nothing."""
    event_type = F.col("_event.type")
    newest = F.coalesce(*(F.when(event_type == t, F.lit(topic.newest(t).version)) for t in topic.event_types))
    named = F.coalesce(
        *(
            F.when((F.col("_event.dataschema") == c.uri) & (event_type == c.name), F.lit(c.version))
            for c in topic.contracts
        ),
        F.lit(None),
    )
    return F.when(F.col("_event.dataschema").isNull(), newest).otherwise(named).cast("int")


def _reason(topic: Topic) -> Column:
    """Why a record can't be landed as valid, the first reason that applies; null for a valid one."""
    event, text = F.col("_event"), F.col("_text")
    time, received = F.col("_event_time"), F.coalesce(F.col("_receivedtime"), F.col("append_time"))
    bound = F.expr(f"interval {int(topic.future_bound.total_seconds())} seconds")
    corrupt, unread = F.col(_CORRUPT), event.isNull() | F.col(_END).isNull()
    rules: list[tuple[Column, Column]] = [
        (F.col("value").isNull(), F.lit("empty: the record has no value")),
        (~F.is_valid_utf8(text), F.lit("not_utf8: the value is no UTF-8 text")),
        (unread | (corrupt & F.try_parse_json(text).isNull()), F.lit("not_json: the value is no JSON object")),
    ]
    for name in ("id", "source", "type", "subject"):
        missing = F.coalesce(event[name] == "", F.lit(True))
        rules.append((missing, F.lit(f"envelope: {name} is missing")))
        rules.append((_no_string(event[name], name), F.lit(f"envelope: {name} is no string")))
    rules += [
        (~F.coalesce(event["specversion"].startswith("1."), F.lit(False)), F.lit("envelope: specversion is not 1.0")),
        (F.col("_time").isNull(), F.lit("envelope: time is missing or unreadable")),
        *(
            (event[name].isNotNull() & F.col(f"_{name}").isNull(), F.lit(f"envelope: {name} is unreadable"))
            for name in ("senttime", "receivedtime")
        ),
        (
            ~F.col("_event.type").isin(*topic.event_types),
            F.concat(F.lit("unknown_type: "), F.substring(F.col("_event.type"), 1, 80)),
        ),
        (
            _version(topic).isNull(),
            F.concat(F.lit("unknown_contract: "), F.substring(F.col("_event.dataschema"), 1, 120)),
        ),
        (time.isNull() | (F.year(time) < topic.earliest_year), F.lit(f"absurd_time: before {topic.earliest_year}")),
        (
            (time > received + bound) | (received > F.col("append_time") + bound),
            F.lit(f"absurd_time: over {topic.future_bound} ahead of its receipt"),
        ),
        (event["data"].isNull(), F.lit("contract: data is missing or no object")),
    ]
    broken = [F.when(F.col("_event.type") == c.name, _broken(c)) for c in topic.contracts]
    return F.coalesce(*(F.when(condition, message) for condition, message in rules), *broken)


def _broken(contract: Contract) -> Column:
    """The first breach of ``contract``, among the records that follow this version of it; null for none."""
    follows = F.coalesce(F.col("_event.dataschema") == contract.uri, F.lit(True))
    breaches = [
        F.when(condition, F.lit(f"contract: {message}"))
        for condition, message in _breaches(F.col("_event.data"), contract.schema, "data")
    ]
    return F.when(follows, F.coalesce(*breaches, F.lit(None)))


def _breaches(column: Column, node: Mapping[str, Any], path: str) -> Iterator[tuple[Column, str]]:
    required = set(node.get("required", ()))
    for name, child in node.get("properties", {}).items():
        yield from _field_breaches(column[name], child, f"{path}.{name}", name in required)


def _field_breaches(value: Column, node: Mapping[str, Any], path: str, required: bool) -> Iterator[tuple[Column, str]]:
    kind = node["type"]
    corrupt = F.col(_CORRUPT)
    said = F.get_json_object(F.col("_text"), f"$.{path}").isNotNull()
    yield corrupt & value.isNull() & said, f"{path} is no {node.get('format', kind)}"
    if required:
        yield value.isNull(), f"{path} is missing"
    if "format" in node:
        yield value.isNotNull() & _typed(value, node).isNull(), f"{path} is no {node['format']}"
    elif kind == "string":
        yield _no_string(value, path), f"{path} is no string"
    if kind == "array":
        yield _bad_items(value, node["items"], path), f"{path} holds what is no {node['items']['type']}"
    if "enum" in node:
        yield ~value.isin(*node["enum"]), f"{path} is none of {node['enum']}"
    if "minimum" in node:
        yield value < node["minimum"], f"{path} is below {node['minimum']}"
    if "maximum" in node:
        yield value > node["maximum"], f"{path} is above {node['maximum']}"
    if "pattern" in node:
        yield ~value.rlike(_java(node["pattern"])), f"{path} doesn't match {node['pattern']}"
    if kind == "object":
        yield from ((value.isNotNull() & c, m) for c, m in _breaches(value, node, path))


def _no_string(value: Column, path: str) -> Column:
    """Whether JSON held something else than a string: Spark makes ``"12"`` of ``12`` without a word.

    The text is parsed again only when a look at it can't tell: the name stands in it twice, or with escapes.
    """
    name = path.rsplit(".", 1)[-1]
    text, quoted = F.col("_text"), f'"{name}"'
    once = F.octet_length(F.replace(text, F.lit(quoted), F.lit(""))) == F.octet_length(text) - len(quoted)
    plainly = (text.contains(f'{quoted}:"') | text.contains(f'{quoted}: "')) & once & ~text.contains("\\")
    return value.rlike(_NO_STRING) & ~plainly & (_kind(path) != "STRING")


def _bad_items(value: Column, items: Mapping[str, Any], path: str) -> Column:
    """Whether an array holds a null or an item of another type. Strings inside of its objects are not looked at."""
    bad = F.exists(value, lambda item: _typed(item, items).isNull())
    if items["type"] in ("object", "array"):
        return bad | (value.isNotNull() & F.col(_CORRUPT))
    if items["type"] == "string" and "format" not in items:
        return bad | (F.exists(value, lambda item: item.rlike(_NO_STRING)) & (_kind(path) != "ARRAY<STRING>"))
    return bad


def _kind(path: str) -> Column:
    """The type that JSON gives the value at ``path``."""
    found = F.try_variant_get(F.try_parse_json("_text"), f"$.{path}", "variant")
    return F.coalesce(F.schema_of_variant(found), F.lit("unreadable"))


def _java(pattern: str) -> str:
    """A pattern as Java reads it: its ``$`` would also match in front of a last line break."""
    return pattern[:-1] + r"\z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern
