"""Arrays and maps that may hold null: how contracts say it, what it changes (values) and what it doesn't (types)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Record, Topic, Upcaster
from anabranch.contracts.fields.field_types import merge, same_shape, shape
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.model.compatibility import allowed_from_upcaster, check_versions, required_from_upcaster
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.contract_registry import check_registered, fingerprint, register
from anabranch.contracts.model.infer import infer
from anabranch.contracts.model.infer_schema import infer_from_schema
from anabranch.contracts.sending import RecordCheck
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from anabranch.ingest.landing.table.schema import arrow_type, landing_schema, parsed_ddl, spark_ddl

pytestmark = pytest.mark.unit
MONEY: dict[str, Any] = {"format": "decimal", "precision": 6, "scale": 2}
SCALARS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", **MONEY},
    {"type": "number", **MONEY},
]


def gaps(node: dict[str, Any]) -> dict[str, Any]:
    """The node as a contract says that it may be null."""
    return {**node, "type": [node["type"], "null"]}


def an_array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def a_map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def contract(
    fields: dict[str, Any],
    version: int = 1,
    rule: Compatibility = Compatibility.BACKWARD,
    required: tuple[str, ...] = (),
) -> Contract:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return Contract("thing.made", version, schema, rule)


def topic(*contracts: Contract) -> Topic:
    return Topic("things", contracts, records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME))


TEXTS, TEXTS_OR_NULL = an_array({"type": "string"}), an_array(gaps({"type": "string"}))


@pytest.mark.parametrize("inner", [*SCALARS, TEXTS, a_map(TEXTS), {"type": "object", "properties": {"a": TEXTS}}])
def test_what_may_be_null_has_the_columns_of_what_may_not(inner: dict[str, Any]) -> None:
    for around in (an_array, a_map):
        plain = contract({"tags": around(inner)})
        found = contract({"tags": around(gaps(inner))})
        assert found.schema != plain.schema
        assert same_shape(found.schema, plain.schema)
        assert shape(found.schema) == shape(plain.schema)
        for of in (spark_ddl, parsed_ddl, arrow_type):
            assert of(found.schema) == of(plain.schema)
        assert landing_schema(topic(found)) == landing_schema(topic(plain))


def test_both_ways_of_writing_it_are_one_contract() -> None:
    written = [["string", "null"], ["null", "string"]]
    found = [contract({"tags": an_array({"type": each})}) for each in written]
    found.append(contract({"tags": an_array({"type": "string", "nullable": True})}))
    assert len({fingerprint(each) for each in found}) == 1
    assert found[0] == found[1] == found[2]
    plain = contract({"tags": TEXTS})
    assert fingerprint(found[0]) != fingerprint(plain)
    assert contract({"tags": an_array({"type": "string", "nullable": False})}) == plain


def test_a_contract_without_it_is_what_it_was() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": TEXTS, "m": a_map({"type": "integer"})}}
    assert Contract("thing.made", 1, schema).schema is schema
    assert fingerprint(Contract("thing.made", 1, schema)) == "a232114acd358bdf"


def test_a_field_that_is_not_required_may_be_null_already() -> None:
    assert contract({"a": gaps({"type": "string"})}) == contract({"a": {"type": "string"}})
    where = {"type": "object", "properties": {"city": gaps({"type": "string"})}}
    plain = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert contract({"where": where, "all": an_array(where)}) == contract({"where": plain, "all": an_array(plain)})


@pytest.mark.parametrize(
    ("fields", "required", "what", "next_step"),
    [
        (
            {"a": gaps({"type": "string"})},
            ("a",),
            "data.a: it is required, so it can't be null",
            "take it out of required",
        ),
        (
            {"either": {"type": ["string", "integer"]}},
            (),
            "data.either: it may be string or integer, and a column has one type",
            "leave the field out of the contract: its records land, and its values stay in their raw bytes",
        ),
        (
            {"tags": an_array({"type": ["null", "string", "integer"]})},
            (),
            "data.tags[]: it may be string or integer, and a column has one type",
            "leave the field out",
        ),
        ({"m": a_map({"type": ["null"]})}, (), "data.m.*: it is always null", "leave it out"),
        ({"m": a_map({"type": []})}, (), "data.m.*: type [] is none of", "use one of these"),
        ({"m": a_map({"type": ["null", 7]})}, (), "data.m.*: type ['null', 7] is none of", "use one of these"),
        ({"m": a_map({"type": "string", "nullable": 1})}, (), "data.m.*: nullable is 1", '"type": ["string", "null"]'),
        (
            {"m": a_map({"type": "string", "nullable": "x"})},
            (),
            "data.m.*: nullable is 'x'",
            '"type": ["string", "null"]',
        ),
        (
            {"m": a_map({"anyOf": [{"type": "string"}, {"type": "null"}]})},
            (),
            "data.m.*: landing can't check anyOf",
            '"type": ["string", "null"]',
        ),
        ({"m": a_map(gaps({"type": "map"}))}, (), "data.m.*: type 'map' is none of", "use one of these"),
    ],
)
def test_what_no_column_can_hold_is_refused_by_its_path(
    fields: dict[str, Any], required: tuple[str, ...], what: str, next_step: str
) -> None:
    with pytest.raises(BadDefinition) as raised:
        contract(fields, required=required)
    assert raised.value.code == "CONTRACT_SCHEMA"
    assert what in str(raised.value)
    assert next_step in str(raised.value.next_step)


def test_a_union_in_a_file_is_refused_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "thing.made.v1.json"
    schema = {"type": "object", "properties": {"either": {"type": ["string", "integer"]}}}
    file.write_text(json.dumps({"name": "thing.made", "version": 1, "schema": schema}))
    with pytest.raises(
        BadDefinition, match=r"thing\.made\.v1\.json: thing\.made v1: data\.either: it may be string or"
    ):
        Contract.from_file(file)


@pytest.mark.parametrize("around", [an_array, a_map])
def test_to_allow_null_is_backward_and_not_forward(around: Any) -> None:
    old, new = {"a": around({"type": "string"})}, {"a": around(gaps({"type": "string"}))}
    check_versions([contract(old), contract(new, 2)])
    check_versions([contract(new), contract(old, 2, Compatibility.FORWARD)])
    place = "data.a[]" if around is an_array else "data.a.*"
    for was, now, rule in ((old, new, "forward"), (old, new, "full"), (new, old, "backward"), (new, old, "full")):
        with pytest.raises(BadDefinition) as raised:
            check_versions([contract(was), contract(now, 2, Compatibility(rule))])
        assert raised.value.code == "CONTRACT_INCOMPATIBLE"
        assert raised.value.fields["broken"] == (f"{place} may be null in one version only",)
    check_versions([contract(old), contract(new, 2, Compatibility.NONE)])
    assert merge([contract(old).schema, contract(new, 2).schema]) == shape(contract(old).schema)


def test_an_upcaster_returns_the_field_whose_items_may_not_be_null_any_more() -> None:
    deep = {"grid": an_array(an_array(gaps({"type": "integer"}))), "m": a_map(a_map(gaps({"type": "integer"})))}
    plain = {"grid": an_array(an_array({"type": "integer"})), "m": a_map(a_map({"type": "integer"}))}
    old, new = contract(deep), contract(plain, 2)
    assert required_from_upcaster(old, new) == {"grid", "m"}
    assert allowed_from_upcaster(old, new) == {"grid", "m"}
    assert allowed_from_upcaster(new, contract(deep, 3)) == frozenset()

    def without_nulls(old: Any) -> Any:
        return {"grid": old["grid"], "m": old["m"]}

    records = PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)
    found = Topic("things", (old, new), records=records, upcasters=(Upcaster("thing.made", 1, without_nulls),))
    assert found.as_sent("thing.made", "grid") == (2,)


def test_a_landed_version_may_allow_null_later_and_not_forbid_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    register(settings, topic(contract({"tags": TEXTS})))
    wider = topic(contract({"tags": TEXTS_OR_NULL}))
    assert check_registered(settings, wider) == [*wider.contracts]
    register(settings, wider)
    assert check_registered(settings, wider) == []
    with pytest.raises(Conflict, match=r"data\.tags\[\] may be null in one version only") as raised:
        check_registered(settings, topic(contract({"tags": TEXTS})))
    assert raised.value.code == "CONTRACT_CHANGED"


WIDE = contract(
    {
        "tags": TEXTS_OR_NULL,
        "counts": an_array(gaps({"type": "integer"})),
        "prices": a_map(gaps({"type": "string", **MONEY})),
        "grid": an_array(gaps(an_array(gaps({"type": "string", "format": "date"})))),
        "shops": a_map(gaps({"type": "object", "properties": {"stock": a_map(gaps({"type": "number"}))}})),
        "firm": TEXTS,
    }
)
GOOD: list[dict[str, Any]] = [
    {"tags": ["a", None], "counts": [None], "prices": {"a": None, "b": "1.50"}},
    {"grid": [None, [None, "2020-01-01"]], "shops": {"a": None, "b": {"stock": {"x": None, "y": 1.5}}}},
]
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"tags": [None, 12]}, "tags.1", "data.tags holds what is no string (data.tags[1] is no string)"),
    ({"counts": [None, "1"]}, "counts.1", "data.counts holds what is no integer (data.counts[1] is no integer)"),
    ({"prices": {"a": None, "b": "1.555"}}, "prices.b", "data.prices['b'] is no decimal(6,2)"),
    ({"grid": [None, [None, "soon"]]}, "grid.1.1", "data.grid holds what is no array (data.grid[1] holds what is no"),
    ({"shops": {"b": {"stock": {"x": "1"}}}}, "shops.b.stock.x", "data.shops['b'].stock['x'] is no number"),
    ({"firm": ["a", None]}, "firm.1", "data.firm holds what is no string (data.firm[1] is missing)"),
]


def test_the_producers_check_and_the_reasons_allow_it_where_the_contract_does() -> None:
    check = RecordCheck(topic(WIDE))
    for data in GOOD:
        assert check.problem(json.dumps(data).encode(), data) is None
        assert list(contract_problems(WIDE, data)) == []
    for data, path, reason in BAD:
        found = check.problem(json.dumps(data).encode(), data)
        assert found is not None
        assert found[0] == path
        assert next(contract_problems(WIDE, data)).startswith(f"contract: {reason}")


def test_samples_with_null_items_and_values() -> None:
    names = [f"key {number}" for number in range(25)]
    lines = [
        {"id": n, "tags": ["a", None], "grid": [[None, 1], None], "m": {names[n]: None if n % 5 else 1.5}, "no": [None]}
        for n in range(25)
    ]
    found = infer("thing.made", map(json.dumps, lines))
    file = json.loads(found.contract_file())["schema"]["properties"]
    assert file["tags"] == {"type": "array", "items": {"type": ["string", "null"]}}
    assert file["grid"]["items"] == {"type": ["array", "null"], "items": {"type": ["integer", "null"]}}
    assert file["m"] == {"type": "object", "additionalProperties": {"type": ["number", "null"]}}
    assert "no: left out, its items have no single type" in found.left_out
    made = Contract(found.name, 1, json.loads(found.contract_file())["schema"])
    assert [list(contract_problems(made, line)) for line in lines] == [[]] * 25
    assert made == Contract(found.name, 1, found.schema)


def test_avro_schemas_with_null_items_and_values() -> None:
    record = {"type": "record", "name": "Part", "fields": [{"name": "n", "type": ["null", "long"]}]}
    types = {
        "tags": {"type": "array", "items": ["null", "string"]},
        "behind": {"type": "array", "items": ["long", "null"]},
        "days": {"type": "map", "values": ["null", {"type": "int", "logicalType": "date"}]},
        "parts": {"type": "array", "items": ["null", record]},
        "grid": {"type": "array", "items": ["null", {"type": "array", "items": ["null", "double"]}]},
        "alone": {"type": "array", "items": ["string"]},
        "either": ["null", "string", "long"],
        "mixed": {"type": "array", "items": ["null", "string", {"type": "int", "logicalType": "date"}]},
        "never": {"type": "map", "values": ["null"]},
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": t} for name, t in types.items()]}
    found = infer_from_schema("thing.made", RegisteredSchema("avro", json.dumps(schema)), "wide.avsc")
    file = json.loads(found.contract_file())["schema"]["properties"]
    assert file == {
        "tags": TEXTS_OR_NULL,
        "behind": an_array(gaps({"type": "integer"})),
        "days": a_map(gaps({"type": "string", "format": "date"})),
        "parts": an_array(gaps({"type": "object", "properties": {"n": {"type": "integer"}}})),
        "grid": an_array(gaps(an_array(gaps({"type": "number"})))),
        "alone": TEXTS,
    }
    assert found.left_out == (
        "either: left out, it may be string or long, and a column has one type",
        "mixed: left out, its items may be string or date, and a column has one type",
        "never: left out, its values are always null",
    )


def test_a_declared_union_of_an_avro_schema_is_refused_with_its_types() -> None:
    fields = [{"name": "either", "type": ["null", "string", "long"]}, {"name": "n", "type": "long"}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    with pytest.raises(BadDefinition) as raised:
        Topic(
            "things",
            (contract({"either": {"type": "string"}}),),
            records=Avro(id=Record.OFFSET, time=Record.APPEND_TIME, schema=schema),
        )
    assert raised.value.code == "MAPPING"
    assert (
        "schema: thing.made v1: data.either: it may be string or long, and a column has one type: leave it out of the "
        "contract, its values stay in the raw bytes" in str(raised.value)
    )
