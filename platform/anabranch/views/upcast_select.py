"""The newest shape of an event type, out of the struct that landing holds for all versions of its contract.

Both paths read through this, so an event of an older version is upcast by one expression, whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anabranch.contracts import Contract, Topic
from anabranch.contracts.field_types import Node, same_shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VERSION: Final = "contract_version"
"""The column of landing that says which version an event was sent by."""
Fields = Mapping[str, "Column"]
Made = Mapping[str, "Column | None"]
"""Fields of which some have nothing that they could be made of."""


def select_newest(rows: DataFrame, columns: Sequence[str], topic: Topic, event_type: str) -> DataFrame:
    """``columns`` (SQL) of landed ``rows`` of one type, and the fields of its newest contract in that contract's order.

    A field that all versions have and no upcaster gives is read as it is; of the others each event takes the
    expression of its own version, and Spark reads those columns only that the wanted ones are made of.
    """
    from pyspark.sql import functions as F

    newest = topic.newest(event_type)
    if len(topic.versions(event_type)) == 1 or _as_they_are(topic, event_type, landed_shape(rows, newest)):
        data = [f"`{newest.column}`.`{name}` AS `{name}`" for name in newest.fields]
        # As SQL text: a call into the JVM for each expression was a tenth of a small rebuild.
        return rows.selectExpr(*columns, *data)
    return rows.select(*(F.expr(text) for text in columns), *newest_fields(rows, topic, event_type))


def newest_fields(rows: DataFrame, topic: Topic, event_type: str) -> list[Column]:
    """The fields of the newest contract as expressions over landed ``rows`` of one type."""
    contracts, landed = topic.versions(event_type), landed_fields(rows, topic.newest(event_type))
    made = [_newest(topic, contracts[place:], fields_of(contract, *landed)) for place, contract in enumerate(contracts)]
    return [
        _by_version(name, node, list(zip(contracts, (fields[name] for fields in made), strict=True))).alias(name)
        for name, node in contracts[-1].fields.items()
    ]


def _as_they_are(topic: Topic, event_type: str, here: Mapping[str, Node]) -> bool:
    """Whether the newest version only has optional fields more: landing leaves them empty in older events."""
    versions = topic.versions(event_type)
    if any(upcaster.event_type == event_type for upcaster in topic.upcasters):
        return False
    return all(
        name in here
        and same_shape(here[name], node)
        and {c.version for c in versions if name in c.fields} == set(topic.as_sent(event_type, name))
        for name, node in versions[-1].fields.items()
    )


def landed_shape(rows: DataFrame, contract: Contract) -> Mapping[str, Node]:
    """The fields of the type's struct as the table has them. One that hasn't grown yet lacks the newest ones, and holds
    no event that has them."""
    from anabranch.ingest.landing.schema_projection import node_of

    held = {field.name: field.dataType for field in rows.schema.fields}.get(contract.column)
    found: Mapping[str, Node] = {} if held is None else node_of(held)["properties"]
    return found


def landed_fields(rows: DataFrame, contract: Contract) -> tuple[Fields, Mapping[str, Node]]:
    """The same, with a column for each."""
    from pyspark.sql import functions as F

    here = landed_shape(rows, contract)
    return {name: F.col(f"`{contract.column}`.`{name}`") for name in here}, here


def fields_of(contract: Contract, columns: Fields, here: Mapping[str, Node]) -> dict[str, Column | None]:
    """What an event of this version has, in its own shape; None for a field that the table doesn't have yet."""
    from anabranch.ingest.landing.schema_projection import project

    return {
        name: project(columns[name], here[name], node) if name in here else None
        for name, node in contract.fields.items()
    }


def complete_fields(contract: Contract, fields: Made) -> Fields:
    """The fields as an upcaster is given them: all of them are columns."""
    from anabranch.ingest.landing.schema_projection import typed_null

    found = {name: fields[name] for name in contract.fields}
    return MappingProxyType({n: typed_null(contract.fields[n]) if c is None else c for n, c in found.items()})


def _newest(topic: Topic, versions: Sequence[Contract], fields: Made) -> Made:
    """Through each version in turn: v1 to v3 is v2 to v3 after v1 to v2."""
    for old, new in pairwise(versions):
        fields = _upcast(topic, old, new, fields)
    return fields


def _upcast(topic: Topic, old: Contract, new: Contract, fields: Made) -> Made:
    """One step: what the upcaster gives, what both versions have under one name, nothing for the rest."""
    from anabranch.ingest.landing.schema import spark_ddl
    from anabranch.ingest.landing.schema_projection import project

    found = topic.upcaster(old.name, old.version)
    given = found.function(complete_fields(old, fields)) if found else {}
    made: dict[str, Column | None] = {}
    for name, node in new.fields.items():
        kept = fields.get(name)
        if name in given:
            made[name] = given[name].cast(spark_ddl(node))
        else:
            made[name] = None if kept is None else project(kept, old.fields[name], node)
    return made


def _by_version(name: str, node: Node, columns: Sequence[tuple[Contract, Column | None]]) -> Column:
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.schema_projection import typed_null

    newest = columns[-1][1]
    # Landing leaves a field empty that an event's own version doesn't have.
    if newest is not None and all(c is newest or (c is None and name not in v.fields) for v, c in columns):
        return newest
    made = typed_null(node)
    for contract, column in columns:
        if column is not None:
            made = F.when(F.col(VERSION) == contract.version, column).otherwise(made)
    return made
