"""Maps for readers of the newest contract: fields become one, and the objects in one that stays get more fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.contracts import Contract, Topic, Upcaster
from anabranch.core.errors import BadDefinition
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.views._upcasting import check_upcasters
from anabranch.views.selection.upcast_select import select_newest
from pyspark.sql import functions as F
from support.things_topic import BASE, decided

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark


def version(number: int, required: list[str], **fields: Any) -> Contract:
    return Contract("thing.made", number, {"type": "object", "required": required, "properties": fields})


def shops(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "object", "properties": fields}}


COUNT, DAY = {"type": "integer"}, {"type": "string", "format": "date"}
ONE = version(1, ["north", "south"], north=COUNT, south=COUNT, shops=shops(sku={"type": "string"}))
STOCK = {"type": "object", "additionalProperties": COUNT}
TWO = version(2, ["stock"], stock=STOCK, shops=shops(sku={"type": "string"}, day=DAY))


def to_map(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"stock": F.create_map(F.lit("north"), old["north"], F.lit("south"), old["south"])}


def to_texts(old: Mapping[str, Column]) -> Mapping[str, Column]:
    return {"stock": F.create_map(F.lit("north"), old["north"].cast("string"))}


def test_fields_become_a_map_and_the_values_of_a_map_grow(spark: SparkSession) -> None:
    topic = Topic("things", (ONE, TWO), upcasters=(Upcaster("thing.made", 1, to_map),))
    check_upcasters(spark, topic, ["thing.made"])
    old = {"north": 1, "south": 2, "shops": {"a": {"sku": "1", "day": "2020-01-01"}}}
    new = {"stock": {"east": 3}, "shops": {"a": {"sku": "1", "day": "2020-01-01"}, "b": {}}}
    values = {
        f"v{contract.version}": json.dumps({**BASE, "id": str(n), "dataschema": contract.uri, "data": data}).encode()
        for n, (contract, data) in enumerate(((ONE, old), (TWO, new)))
    }
    rows = decided(spark, values, topic)
    assert {row["reason"] for row in rows.values()} == {None}
    landed = spark.createDataFrame(pa.Table.from_pylist(list(rows.values()), landing_schema(topic)))
    found = select_newest(landed.orderBy("offset"), ["offset"], topic, "thing.made")
    assert dict(found.dtypes)["stock"] == "map<string,bigint>"
    assert [(row["stock"], {k: tuple(v) for k, v in row["shops"].items()}) for row in found.collect()] == [
        ({"north": 1, "south": 2}, {"a": ("1", None)}),
        ({"east": 3}, {"a": ("1", date(2020, 1, 1)), "b": (None, None)}),
    ]


def test_a_map_of_another_type_is_refused(spark: SparkSession) -> None:
    topic = Topic("things", (ONE, TWO), upcasters=(Upcaster("thing.made", 1, to_texts),))
    with pytest.raises(
        BadDefinition, match=r"stock becomes map<string,string>, v2 declares map<string,bigint>"
    ) as error:
        check_upcasters(spark, topic, ["thing.made"])
    assert error.value.code == "UPCASTER_TYPE"
