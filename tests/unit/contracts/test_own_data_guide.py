"""What the guide to one's own data says is what happens."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from anabranch.contracts import Avro, CloudEvents, Contract, PlainJson, Record, TimeField, Topic, load_declarations
from anabranch.contracts.fields.decimals import WrittenFloat, exact_value, problem
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.model._mapping_check import problems
from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import project_root
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from anabranch.ingest.landing.decoding._quarantine_reasons import UNREADABLE, reason
from anabranch.ingest.landing.table.schema import spark_ddl

pytestmark = pytest.mark.unit
OFFSETS = PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)
GUIDE = (project_root() / "docs" / "your-own-data.md").read_text()


def block(language: str, holds: str) -> str:
    (found,) = (text for text in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if holds in text)
    return str(found)


def test_its_topic_can_be_declared_and_its_record_follows_the_contract(tmp_path: Path) -> None:
    (tmp_path / "payments.py").write_text(block("python", "PlainJson("))
    topic = load_declarations(tmp_path).topic("payments")
    assert isinstance(topic.records, PlainJson)
    record = json.loads(block("json", "paymentId"))
    (contract,) = topic.contracts
    assert contract.required <= record.keys()
    assert not topic.owned


def test_its_error_is_the_one_that_is_raised(tmp_path: Path) -> None:
    text = block("python", "PlainJson(").replace('TimeField("createdAt", unit="ms")', '"createdAt"')
    (tmp_path / "payments.py").write_text(text)
    with pytest.raises(BadDefinition) as error:
        load_declarations(tmp_path)
    assert str(error.value).splitlines()[0] == block("text", "[MAPPING]").strip()


def test_its_decimals_are_declared_and_refused_as_it_says() -> None:
    fields = json.loads(block("json", '"decimal"'))
    topic = Topic("payments", (Contract("payment.made", 1, {"type": "object", "properties": fields}),), records=OFFSETS)
    found = reason(topic, b'{"amount": "1.505"}', datetime(2024, 3, 1, tzinfo=UTC))
    assert found == block("text", "behind the point").strip()


def test_its_maps_are_declared_and_refused_as_it_says() -> None:
    fields = json.loads(block("json", '"labels"'))
    topic = Topic("shelves", (Contract("shelf.counted", 1, {"type": "object", "properties": fields}),), records=OFFSETS)
    records = (
        b'{"labels": {"north": 1}}',
        b'{"stock": {"north": {"pieces": "1"}}}',
        b'{"labels": {"north": null}}',
        b'{"labels": {"north": "a", "north": "a"}}',
    )
    found = [reason(topic, record, datetime(2024, 3, 1, tzinfo=UTC)) for record in records]
    assert found == block("text", "data.labels['north'] is no string").splitlines()


def test_its_arrays_and_maps_may_hold_null_as_it_says() -> None:
    fields = json.loads(block("json", '"null"'))
    contract = Contract("thing.made", 1, {"type": "object", "properties": fields})
    topic = Topic("things", (contract,), records=OFFSETS)
    at = datetime(2024, 3, 1, tzinfo=UTC)
    sound = b'{"counts": [null, 7], "rates": {"a": null}, "grid": [null, [null]], "sizes": [1]}'
    assert reason(topic, sound, at) == UNREADABLE, "nothing is wrong with it"
    records = (b'{"counts": [null, "7"]}', b'{"sizes": [1, null]}')
    found = [reason(topic, record, at) for record in records]
    assert found == block("text", "data.sizes").splitlines()


TYPES = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", GUIDE.partition("### Types")[2].partition("### ")[0], re.MULTILINE)[
    2:
]


@pytest.mark.parametrize(("declared", "sent", "lands"), TYPES)
def test_its_table_of_types_is_true(declared: str, sent: str, lands: str) -> None:
    column = re.findall("`([^`]+)`", lands)[0]
    for text in re.findall("`({[^`]+})`", declared):
        some = '{"a": {"type": "string"}}' if "properties" in text else '{"type": "string"}'
        node = json.loads(text.replace("{...}", some))
        contract = Contract("thing.made", 1, {"type": "object", "properties": {"it": node}})
        assert spark_ddl(node).partition("<")[0] == column
        for example in re.findall("`([^`]+)`", sent) if node["type"] == "string" else ():
            assert list(contract_problems(contract, {"it": example})) == []
        if {"format", "contentEncoding"} & set(node):
            assert list(contract_problems(contract, {"it": "x"}))


def test_its_table_of_types_is_read() -> None:
    assert len(TYPES) == 13


def test_its_reasons_of_texts_and_integers_are_those_of_landing() -> None:
    uuid = {"type": "string", "format": "uuid"}
    fields = {
        "order": uuid,
        "opens": {"type": "string", "format": "time"},
        "parts": {"type": "array", "items": uuid},
        "count": {"type": "integer"},
        "photo": {"type": "string", "contentEncoding": "base64"},
    }
    topic = Topic("things", (Contract("thing.made", 1, {"type": "object", "properties": fields}),), records=OFFSETS)
    records = (
        b'{"order": "7"}',
        b'{"opens": "9:00"}',
        b'{"parts": ["7"]}',
        b'{"count": 9223372036854775808}',
        b'{"photo": "x"}',
    )
    found = [reason(topic, record, datetime(2024, 3, 1, tzinfo=UTC)) for record in records]
    assert found == [
        *block("text", "is no uuid").splitlines(),
        *block("text", "of 64 bits").splitlines(),
        *block("text", "is no base64").splitlines(),
    ]


def test_an_offset_can_be_asked_for_as_it_says() -> None:
    (pattern,) = re.findall(r'`"pattern": "([^"]+)"`\.', GUIDE)
    node = {"type": "string", "format": "time", "pattern": pattern}
    contract = Contract("thing.made", 1, {"type": "object", "properties": {"it": node}})
    judged = {
        text: not list(contract_problems(contract, {"it": text}))
        for text in ("10:15:00", "10:15:00Z", "10:15:00-01:00")
    }
    assert list(judged.values()) == [False, True, True]


DECIMALS = re.findall(
    r"^\| (`[^|]+) \| (`[^|]+|quarantine) \|$", GUIDE.partition("### Decimals")[2].partition("### ")[0], re.MULTILINE
)


@pytest.mark.parametrize(("values", "lands"), DECIMALS)
def test_its_table_of_decimals_is_true(values: str, lands: str) -> None:
    node = {"format": "decimal", "precision": 12, "scale": 2}
    found = [json.loads(text, parse_float=WrittenFloat) for text in re.findall("`([^`]+)`", values)]
    typed = [{**node, "type": "string" if isinstance(value, str) else "number"} for value in found]
    wrong = [problem(value, each) for value, each in zip(found, typed, strict=True)]
    if lands == "quarantine":
        assert all(wrong)
        return
    assert not any(wrong)
    exact = [exact_value(value).quantize(Decimal("0.01")) for value in found]
    assert exact == [Decimal(text) for text in re.findall("`([^`]+)`", lands)]
    assert all(text[-3] == "." for text in re.findall("`([^`]+)`", lands))


def test_its_reasons_of_other_formats_are_those_of_landing() -> None:
    """Each line of the block, from a record that is wrong in that way."""
    fields = {"total": {"type": "number", "format": "decimal", "precision": 12, "scale": 2}}
    contract = Contract("order.placed", 1, {"type": "object", "properties": fields})
    schema = {"type": "record", "name": "Order", "fields": [{"name": "total", "type": "string"}]}
    known = {7: RegisteredSchema("avro", json.dumps(schema))}
    topic = Topic("orders", (contract,), records=Avro(id=Record.OFFSET, time=Record.APPEND_TIME, schemas=known))
    text = b"a text of thirty bytes, and one"
    records = [
        b"\x00\x00\x00\x00\x63x",
        b"\x00\x00\x00\x00\x07" + bytes([2 * len(text)]) + text[:25],
        b'{"total": "1.00"}',
        b"\x00\x00\x00\x00\x07\x081.00",
    ]
    found = [reason(topic, record, datetime(2024, 3, 1, tzinfo=UTC)) for record in records]
    assert "\n".join(found) == block("text", "unknown_schema").strip()


def test_its_table_of_decimals_is_read() -> None:
    assert len(DECIMALS) == 7


def test_the_formats_that_it_names_are_known() -> None:
    for pattern in re.findall(r'format="([^"]+)"', GUIDE):
        assert list(problems(PlainJson(id="a", time=TimeField("a", format=pattern)), ()))[:1] == []


def test_its_events_of_others_are_declared_and_refused_as_it_says() -> None:
    found: dict[str, object] = {}
    exec(block("python", "CloudEvents("), found)  # noqa: S102 - our own page
    events = found["ORDER_EVENTS"]
    assert isinstance(events, CloudEvents)
    kinds = ("order.placed", 1), ("order.placed", 2), ("order.cancelled", 1)
    topic = Topic(
        "orders",
        tuple(
            Contract(name, n, {"type": "object", "properties": {"orderId": {"type": "string"}}}) for name, n in kinds
        ),
        records=events,
    )
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "com.example.OrderPlaced"}
    for more, says in (
        ({"data": {}}, UNREADABLE),
        ({"data": {}, "type": "OrderLost"}, "unknown_type"),
        ({"data": {}, "dataschema": "https://example.com/schemas/order/3"}, "unknown_contract"),
        ({"data_base64": "e30="}, "envelope: data_base64 isn't read"),
        ({"data": {}, "time": "noon"}, "envelope: time is missing or unreadable"),
    ):
        said = reason(topic, json.dumps({**event, **more}).encode(), datetime(2024, 3, 1, tzinfo=UTC))
        assert said.startswith(says), said
        assert says.partition(":")[0] in GUIDE
