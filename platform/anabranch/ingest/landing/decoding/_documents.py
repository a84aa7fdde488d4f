"""The JSON text of a record's value, as a Spark expression: the value itself, or the document of its format.

Avro and Protobuf are read by Python functions over Arrow batches, all else by the engine. What can't be read is null;
``_quarantine_reasons`` reads it again for the reason. Rows of files hold JSON whatever the topic's format is.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.contracts import CloudEvents, PlainJson, Raw
from anabranch.contracts.formats import Undecodable, encode
from anabranch.contracts.model.records import Mapped, Records, holds_json
from anabranch.ingest.landing.decoding._readers import reader_of

JSON: Final = "_json"
END: Final = "_end"
"""A field behind the event, in the object around it."""


def json_of(records: Records) -> Column:
    """The JSON text of ``value``; null if it can't be read."""
    value = F.col("value").cast("string")
    match records:
        case CloudEvents() | PlainJson():
            return value
        case Raw(form="text"):
            found = F.when(F.is_valid_utf8(value), F.to_json(F.struct(value.alias("text"))))
        case Raw():
            found = F.concat(F.lit('{"base64":"'), base64_of(F.col("value")), F.lit('"}'))
        case _:
            found = _documents(records)(F.col("value"))
    return F.when(F.col("partition") < 0, value).otherwise(found)


def with_json(frame: DataFrame, records: Records) -> DataFrame:
    """``frame`` with what ``json_text`` needs."""
    return frame if holds_json(records) else frame.withColumn(JSON, json_of(records))


def json_text(records: Records) -> Column:
    """What ``json_of`` gives, made once for each row of ``with_json``."""
    return json_of(records) if holds_json(records) else F.col(JSON)


def wrapped(text: Column) -> Column:
    """A record's text inside an object, so that text after the event is an error: Spark stops after a text's first
    value."""
    return F.concat(F.lit('{"event":'), text, F.lit(f',"{END}":true}}'))


def base64_of(value: Column) -> Column:
    """Bytes in base64, in one line."""
    return F.translate(F.base64(value), "\r\n", "")


def _documents(records: Mapped) -> Any:
    @F.arrow_udf("string")  # type: ignore[attr-defined,untyped-decorator]  # its stubs lack it
    def documents(values: pa.Array) -> pa.Array:
        read = reader_of(records)

        def document(value: bytes | None) -> bytes | None:
            try:
                return None if value is None else encode(read(value))
            except Undecodable:
                return None

        return pa.array([document(value) for value in values.to_pylist()], pa.binary()).cast(pa.string())

    return documents


def document(records: Records, value: bytes, *, loaded: bool) -> bytes:
    """The same in plain Python. Raises Undecodable."""
    if loaded or holds_json(records):
        return value
    return encode(reader_of(records)(value))
