"""What the decoders have in common that make columns of records without a JSON text in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.contracts import Topic
from anabranch.contracts.fields.field_types import Node
from anabranch.contracts.fields.text_formats import is_plain
from anabranch.ingest.landing.decoding._validity import DATA

READ: Final = "_read"
"""Whether a record has been read, and nothing about it is in doubt; never null."""


class UnsupportedError(Exception):
    """A type, or a pair of a type and a contract's field, that isn't read this way."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the contract: as the record has it, and in the type of landing."""

    sent: Column
    typed: Column


def struct_of(fields: Mapping[str, Field], value: Column) -> Field:
    """An object of these fields; null where ``value`` is. Raises UnsupportedError without fields."""
    if not fields:
        raise UnsupportedError
    sent = F.struct(*(each.sent.alias(name) for name, each in fields.items()))
    typed = F.struct(*(each.typed.alias(name) for name, each in fields.items()))
    return Field(F.when(value.isNotNull(), sent), F.when(value.isNotNull(), typed))


def fields_of(read: DataFrame, found: Sequence[tuple[Column, Field]]) -> DataFrame:
    """``read`` with the columns READ, ``_event`` (a struct with ``data`` only) and DATA: of the data whose condition
    holds."""
    sent = F.coalesce(*(F.when(holds, data.sent) for holds, data in found))
    typed = F.coalesce(*(F.when(holds, data.typed) for holds, data in found))
    columns = F.struct(sent.alias("data")).alias("_event"), typed.alias(DATA), typed.isNotNull().alias(READ)
    return read.select("*", *columns)


def has_ruled_formats(topic: Topic) -> bool:
    """Whether a contract has rules for the text of a time, a date or a decimal, which only the text can break."""
    return any(_has_ruled_formats(contract.schema) for contract in topic.contracts)


def _has_ruled_formats(node: Node) -> bool:
    below = [*node.get("properties", {}).values(), *(node[k] for k in ("items", "additionalProperties") if k in node)]
    return (not is_plain(node) and bool({"enum", "pattern"} & set(node))) or any(map(_has_ruled_formats, below))
