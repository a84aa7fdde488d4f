"""Maps in contracts: how they are declared, compared, inferred and checked before anything is sent."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Record, TimeField, Topic, TypeField
from anabranch.contracts.fields.field_types import ShapesClash, merge, same_shape, sent_names, shape
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.model.compatibility import check_versions, narrowed
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.infer import infer
from anabranch.contracts.model.infer_schema import infer_from_schema
from anabranch.contracts.sending import EventValidator, RecordCheck
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from anabranch.ingest.landing.table.schema import arrow_type, parsed_ddl, spark_ddl
from google.protobuf import descriptor_pb2
from support.map_records import protobuf_shelf

pytestmark = pytest.mark.unit
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
MONEY: dict[str, Any] = {"type": "string", "format": "decimal", "precision": 6, "scale": 2}
COUNTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}


def contract(fields: dict[str, Any], version: int = 1, rule: Compatibility = Compatibility.BACKWARD) -> Contract:
    return Contract("shelf.counted", version, {"type": "object", "properties": fields}, rule)


def shops(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "object", "properties": fields}}


def test_a_map_has_a_type_of_its_own() -> None:
    node = shops(sku={"type": "string"}, on={"type": "string", "format": "date"}, cents=MONEY, stock=COUNTS)
    inside = "struct<`sku`: {0}, `on`: {1}, `cents`: {2}, `stock`: map<string, bigint>>"
    assert spark_ddl(node) == f"map<string, {inside.format('string', 'date', 'decimal(6,2)')}>"
    assert parsed_ddl(node) == f"map<string, {inside.format('variant', 'variant', 'variant')}>"
    assert str(arrow_type(COUNTS)) == "map<string, int64>"
    assert shape({**COUNTS, "description": "x"}) == COUNTS


@pytest.mark.parametrize(
    ("node", "what", "next_step"),
    [
        (
            {"type": "object", "additionalProperties": True},
            "landing can't check additionalProperties: true",
            "leave it out",
        ),
        (
            {"type": "object", "additionalProperties": False},
            "landing can't check additionalProperties: false",
            "leave it",
        ),
        (
            {**TEXTS, "properties": {"a": {"type": "string"}}},
            "it has named fields and additionalProperties",
            "a map only",
        ),
        ({**TEXTS, "required": ["a"]}, "it has named fields and additionalProperties", "a map only"),
        (
            {"type": "string", "additionalProperties": {"type": "string"}},
            "additionalProperties of a 'string'",
            "write a map",
        ),
        ({"type": "object", "additionalProperties": {}}, "data.m.*: type None is none of", "use one of these"),
        ({"type": "object", "additionalProperties": {"type": "map"}}, "data.m.*: type 'map' is none of", "use one"),
        (
            shops(n={"type": "integer", "minimum": 0}),
            "data.m.*.n: ['minimum'] isn't checked inside of maps",
            "in a view",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "enum": ["a"]}},
            "data.m.*: ['enum'] isn't checked inside of maps",
            "describe the map as a whole",
        ),
        (shops(**{"a-b": {"type": "string"}}), "data.m.*.a-b: names of fields may hold", "sent_as"),
    ],
)
def test_a_wrong_map_is_refused_by_its_path(node: dict[str, Any], what: str, next_step: str) -> None:
    with pytest.raises(BadDefinition) as raised:
        contract({"m": node})
    assert raised.value.code == "CONTRACT_SCHEMA"
    assert what in str(raised.value)
    assert next_step in str(raised.value.next_step)


def test_the_data_itself_is_no_map() -> None:
    with pytest.raises(BadDefinition, match="must be an object, and no map"):
        Contract("shelf.counted", 1, TEXTS)


def test_values_grow_like_items_of_arrays() -> None:
    old, new = contract({"m": shops(a={"type": "string"})}), contract({"m": shops(a={"type": "string"}, b=COUNTS)}, 2)
    check_versions([old, new])
    assert merge([old.schema, new.schema]) == shape(new.schema)
    assert not same_shape(old.schema, new.schema)


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, TEXTS, "data.m was object and is map"),
        (TEXTS, {"type": "object", "properties": {"a": {"type": "string"}}}, "data.m was map and is object"),
        (TEXTS, COUNTS, "data.m.* was string and is integer"),
        (shops(a=TEXTS), shops(a=COUNTS), "data.m.*.a.* was string and is integer"),
    ],
)
def test_another_type_is_incompatible(was: dict[str, Any], now: dict[str, Any], what: str) -> None:
    old, new = contract({"m": was}), contract({"m": now}, 2, Compatibility.NONE)
    with pytest.raises(BadDefinition) as raised:
        check_versions([old, new])
    assert raised.value.fields["broken"] == (what,)
    assert narrowed(old, new) == []
    with pytest.raises(ShapesClash):
        merge([old.schema, new.schema])


def test_names_in_the_records_are_known_inside_of_maps() -> None:
    node = shops(sku={"type": "string", "sent_as": "item-no"})
    assert dict(sent_names(contract({"m": node}).schema))["data.m.*.sku"] == "item-no"


@pytest.mark.parametrize(
    ("mapping", "what"),
    [
        ({"id": "labels.north"}, "id: labels is a map in shelf.counted v1, and no part can come from its values"),
        ({"id": "labels"}, "id: labels is a map in shelf.counted v1, not a integer or string"),
        ({"subject": "labels.north"}, "subject: labels is a map"),
        ({"type": TypeField("where.tags.kind")}, "type: where.tags is a map"),
        ({"time": TimeField("labels.at", unit="s")}, "time: labels is a map"),
    ],
)
def test_a_mapping_goes_through_no_map(mapping: dict[str, Any], what: str) -> None:
    fields = {"labels": TEXTS, "where": {"type": "object", "properties": {"tags": TEXTS}}}
    with pytest.raises(BadDefinition) as raised:
        Topic(
            "shelves",
            (contract(fields),),
            records=PlainJson(**{"id": Record.OFFSET, "time": Record.APPEND_TIME, **mapping}),
        )
    assert raised.value.code == "MAPPING"
    assert what in str(raised.value)


AVRO = json.dumps(
    {
        "type": "record",
        "name": "Shelf",
        "fields": [
            {"name": "counts", "type": {"type": "map", "values": "long"}},
            {"name": "where", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}},
        ],
    }
)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ({"counts": TEXTS}, "data.counts.* is a integer in the schema, and a string in the contract"),
        (
            {"counts": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "data.counts is a map in the schema, and a object in the contract",
        ),
        ({"where": COUNTS}, "data.where is a object in the schema, and a map in the contract"),
        ({"counts": {"type": "object", "additionalProperties": {"type": "number"}}}, None),
        ({"counts": COUNTS}, None),
    ],
)
def test_a_schema_is_held_to_maps(field: dict[str, Any], what: str | None) -> None:
    def declare() -> Topic:
        records = Avro(id=Record.OFFSET, time=Record.APPEND_TIME, schema=AVRO)
        return Topic("shelves", (contract(field),), records=records)

    if what is None:
        assert declare()
        return
    with pytest.raises(BadDefinition) as raised:
        declare()
    assert what in str(raised.value)


def test_maps_are_inferred_from_a_protobuf_schema() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    protobuf_shelf().DESCRIPTOR.file.CopyToProto(file)
    schema = RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())
    properties = infer_from_schema("shelf.counted", schema, "x").schema["properties"]
    assert properties["labels"] == TEXTS
    assert properties["counts"] == COUNTS
    boxes = properties["boxes"]["additionalProperties"]
    assert boxes == {"type": "object", "properties": {"size_x": {"type": "integer"}, "tags": TEXTS}}
    assert not infer_from_schema("shelf.counted", schema, "x").left_out


def sample(records: list[Mapping[str, Any]]) -> Any:
    return infer("shelf.counted", [json.dumps(record) for record in records])


def test_a_sample_with_many_names_and_few_in_common_becomes_a_map() -> None:
    found = sample([{"id": n, "stock": {f"sku-{n}": n, f"sku-{n + 1}": n}, "where": {"x": 1}} for n in range(30)])
    assert found.schema["properties"]["stock"] == COUNTS
    assert found.schema["properties"]["where"]["properties"] == {"x": {"type": "integer"}}
    assert found.left_out == ("stock: a map, since its 31 names differ from record to record; check that",)
    assert "# stock: a map" in found.declaration("shelves")
    Contract("shelf.counted", 1, found.schema)


def test_objects_in_such_a_map_are_merged() -> None:
    found = sample([{"shops": {f"s{n}": {"n": n} if n % 2 else {"city": "Rome"}}} for n in range(30)])
    values = found.schema["properties"]["shops"]["additionalProperties"]
    assert values == {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "records",
    [
        [{"stock": {f"f{n}": 1 for n in range(40)}} for _ in range(3)],  # the same names in each
        [{"stock": {f"f{n}": 1}} for n in range(20)],  # not many
        [{"stock": {f"f{n}": 1 if n else "x"}} for n in range(30)],  # of several types
    ],
)
def test_other_samples_stay_objects(records: list[Mapping[str, Any]]) -> None:
    assert "properties" in sample(records).schema["properties"]["stock"]


LABELLED = contract(
    {
        "labels": TEXTS,
        "prices": {"type": "object", "additionalProperties": MONEY},
        "boxes": shops(sku={"type": "string", "sent_as": "item-no"}, tags=TEXTS),
    }
)
SHELVES = Topic("shelves", (LABELLED,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))


@pytest.mark.parametrize(
    ("text", "field", "why"),
    [
        ('{"labels":{"a":"b"},"prices":{"x":"1.50"},"boxes":{"y":{"item-no":"1","tags":{}}}}', None, ""),
        ('{"labels":{"north":12}}', "labels.north", "12 is not of type"),
        ('{"labels":{"north":null}}', "labels.north", "null is not of type"),
        ('{"labels":[]}', "labels", "is not of type"),
        ('{"labels":{"a":"b","a":"b"}}', "labels", "has the key 'a' twice"),
        ('{"labels":{"a":"b","\\u0061":"c"}}', "labels", "has the key 'a' twice"),
        ('{"labels":{"a":"1","a":"1"},"labels":{"a":"1"}}', None, ""),
        ('{"boxes":{"y":{"tags":{"a":"b","a":"b"}}}}', "boxes.y.tags", "has the key 'a' twice"),
        ('{"boxes":{"y":{"item-no":1}}}', "boxes.y.item-no", "1 is not of type"),
        ('{"prices":{"x":"1.505"}}', "prices.x", "is no decimal(6,2)"),
    ],
)
def test_a_record_is_checked_before_it_is_sent(text: str, field: str | None, why: str) -> None:
    found = RecordCheck(SHELVES).problem(text.encode(), json.loads(text))
    assert (found is None) == (field is None)
    if found is not None:
        assert (found[0], why in found[1]) == (field, True)


def test_an_event_with_a_repeated_key_is_refused() -> None:
    event: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "s", "type": "shelf.counted", "subject": "s"}
    event |= {"time": "2020-01-01T00:00:00Z", "dataschema": LABELLED.uri, "data": {"labels": {"a": "b"}}}
    text = json.dumps(event)
    EventValidator([LABELLED]).check_bytes(text.encode())
    with pytest.raises(BadInput) as raised:
        EventValidator([LABELLED]).check_bytes(text.replace('"a": "b"', '"a": "b", "a": "b"').encode())
    assert raised.value.fields["field"] == "data.labels"


def test_a_reason_names_the_key() -> None:
    assert list(contract_problems(LABELLED, {"labels": {"it's": 1}})) == ['contract: data.labels["it\'s"] is no string']


def test_half_of_a_surrogate_pair_next_to_another_problem_is_a_refusal() -> None:
    for text in ('{"labels":{"\\ud800":12}}', '{"labels":{"a":12,"b":"\\ud800"}}'):
        found = RecordCheck(SHELVES).problem(text.encode(), json.loads(text))
        assert found is not None
