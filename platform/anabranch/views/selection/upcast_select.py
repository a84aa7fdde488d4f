"""Select an event type's fields in its newest contract version, from the struct that landing holds for all versions.

Both paths read events through this module, so both upcast an older event by the same expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anabranch.contracts import Contract, Topic
from anabranch.contracts.fields.field_types import Node
from anabranch.core.engine.call_sites import call_sites

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VERSION: Final = "contract_version"
"""The column of landing with the contract version that an event was sent with."""
Fields = Mapping[str, "Column"]
OptionalFields = Mapping[str, "Column | None"]
"""Fields by name; None for a field that an event of this version can't have."""


def select_newest(rows: DataFrame, columns: Sequence[str], topic: Topic, event_type: str) -> DataFrame:
    """Selects ``columns`` (SQL) of landed ``rows`` of one type, and the fields of its newest contract in its order.

    A field that all versions have and no upcaster sets is read directly. For any other field each event uses the
    expression of its own version. Spark reads only the columns that the selected fields are computed from.
    """
    from pyspark.sql import functions as F

    newest = topic.newest(event_type)
    if len(topic.versions(event_type)) == 1 or _needs_no_upcast(topic, event_type, landed_schema_of(rows, newest)):
        data = [f"`{newest.column}`.`{name}` AS `{name}`" for name in newest.fields]
        # As SQL text: one JVM call per expression took a tenth of the time of a small rebuild.
        return rows.selectExpr(*columns, *data)
    return rows.select(*(F.expr(text) for text in columns), *newest_fields(rows, topic, event_type))


def newest_fields(rows: DataFrame, topic: Topic, event_type: str) -> list[Column]:
    """The fields of the newest contract as expressions over landed ``rows`` of one type."""
    contracts, landed = topic.versions(event_type), landed_fields(rows, topic.newest(event_type))
    upcast = [_upcast_all(topic, contracts[i:], fields_of(contract, *landed)) for i, contract in enumerate(contracts)]
    return [
        _by_version(name, node, list(zip(contracts, (fields[name] for fields in upcast), strict=True))).alias(name)
        for name, node in contracts[-1].fields.items()
    ]


def _needs_no_upcast(topic: Topic, event_type: str, here: Mapping[str, Node]) -> bool:
    """Whether the newest version only adds optional fields: landing leaves them null in older events."""
    from anabranch.ingest.landing.table.schema_projection import same_type

    versions = topic.versions(event_type)
    if any(upcaster.event_type == event_type for upcaster in topic.upcasters):
        return False
    return all(
        name in here
        and same_type(here[name], node)
        and {c.version for c in versions if name in c.fields} == set(topic.as_sent(event_type, name))
        for name, node in versions[-1].fields.items()
    )


def landed_schema_of(rows: DataFrame, contract: Contract) -> Mapping[str, Node]:
    """The fields of the type's struct in the table. A table whose schema hasn't grown yet lacks the newest fields, and
    holds no event that has them."""
    from anabranch.ingest.landing.table.schema_projection import node_of

    struct = {field.name: field.dataType for field in rows.schema.fields}.get(contract.column)
    found: Mapping[str, Node] = {} if struct is None else node_of(struct)["properties"]
    return found


def landed_fields(rows: DataFrame, contract: Contract) -> tuple[Fields, Mapping[str, Node]]:
    """``landed_schema_of``, with a column for each field."""
    from pyspark.sql import functions as F

    here = landed_schema_of(rows, contract)
    return {name: F.col(f"`{contract.column}`.`{name}`") for name in here}, here


def fields_of(contract: Contract, columns: Fields, here: Mapping[str, Node]) -> dict[str, Column | None]:
    """The fields of an event of this contract version, in that version's types; None for a field that the table lacks
    so far."""
    from anabranch.ingest.landing.table.schema_projection import project

    return {
        name: project(columns[name], here[name], node) if name in here else None
        for name, node in contract.fields.items()
    }


def complete_fields(contract: Contract, fields: OptionalFields) -> Fields:
    """The fields as an upcaster gets them: a typed null stands for each one that is None."""
    from anabranch.ingest.landing.table.schema_projection import typed_null

    found = {name: fields[name] for name in contract.fields}
    return MappingProxyType({n: typed_null(contract.fields[n]) if c is None else c for n, c in found.items()})


def _upcast_all(topic: Topic, versions: Sequence[Contract], fields: OptionalFields) -> OptionalFields:
    """Applies each step in turn: v1 to v2, then v2 to v3."""
    for old, new in pairwise(versions):
        fields = _upcast(topic, old, new, fields)
    return fields


def _upcast(topic: Topic, old: Contract, new: Contract, fields: OptionalFields) -> OptionalFields:
    """One step: the fields that the upcaster returns, then those with the same name in both versions; None for the
    rest."""
    from anabranch.ingest.landing.table.schema import spark_ddl
    from anabranch.ingest.landing.table.schema_projection import project

    found = topic.upcaster(old.name, old.version)
    given: Mapping[str, Column] = {}
    if found:
        with call_sites():
            given = found.function(complete_fields(old, fields))
    result: dict[str, Column | None] = {}
    for name, node in new.fields.items():
        kept = fields.get(name)
        if name in given:
            result[name] = given[name].cast(spark_ddl(node))
        else:
            result[name] = None if kept is None else project(kept, old.fields[name], node)
    return result


def _by_version(name: str, node: Node, columns: Sequence[tuple[Contract, Column | None]]) -> Column:
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.table.schema_projection import typed_null

    newest = columns[-1][1]
    # Landing leaves a field null that the event's own version doesn't have: no CASE is needed.
    if newest is not None and all(c is newest or (c is None and name not in v.fields) for v, c in columns):
        return newest
    result = typed_null(node)
    for contract, column in columns:
        if column is not None:
            result = F.when(F.col(VERSION) == contract.version, column).otherwise(result)
    return result
