"""A contract is inferred from the data of others' CloudEvents, and a declaration that reads them as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli import _contract_commands
from anabranch.apps.cli.main import app
from anabranch.contracts import CloudEvents, Record, Topic, load_declarations
from anabranch.contracts.model.contract import EVENT_TYPE
from anabranch.contracts.model.event_headers import as_structured
from anabranch.contracts.model.infer_events import common_type, infer_topic, proposed_type
from anabranch.core.errors import BadInput
from anabranch.ingest.kafka.look import LogRecord
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


def event(number: int, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"e-{number}",
        "source": "/shop",
        "type": "com.example.OrderPlaced",
    }
    made |= {"time": "2024-03-01T10:00:00Z", "data": {"orderId": f"o-{number}", "cents": number}}
    return {name: value for name, value in {**made, **more}.items() if value is not None}


def declared(tmp_path: Path, events: list[dict[str, Any]], name: str = "order.placed") -> Topic:
    found = infer_topic(name, [json.dumps(each) for each in events])
    (tmp_path / f"{name}.v1.json").write_text(found.contract_file())
    (tmp_path / "orders.py").write_text(found.declaration("orders"))
    return load_declarations(tmp_path, reload=True).topic("orders")


def test_events_of_others_are_declared_as_they_are(tmp_path: Path) -> None:
    uri = "https://example.com/order"
    events = [
        event(n, dataschema=uri if n else None, time=None if n == 3 else "2024-03-01T10:00:00Z") for n in range(9)
    ]
    topic = declared(tmp_path, [*events, event(10, type="com.example.OrderSent"), {"not": "an event"}])
    assert topic.records == CloudEvents({"com.example.OrderPlaced": "order.placed"}, {uri: 1}, Record.APPEND_TIME)
    assert set(topic.newest("order.placed").fields) == {"orderId", "cents"}
    text = (tmp_path / "orders.py").read_text()
    assert "# 1 events of type 'com.example.OrderSent' need a contract of their own, and a name in types" in text


def test_events_like_our_own_need_no_mapping(tmp_path: Path) -> None:
    topic = declared(tmp_path, [event(n, type="order.placed") for n in range(3)])
    assert topic.records == CloudEvents()
    assert "CloudEvents" not in (tmp_path / "orders.py").read_text()


def test_many_schemas_are_any(tmp_path: Path) -> None:
    topic = declared(tmp_path, [event(n, dataschema=f"https://example.com/{n}") for n in range(9)])
    assert isinstance(topic.records, CloudEvents)
    assert topic.records.schemas == "any"
    assert "# events of 9 schemas (dataschema) are read by one contract" in (tmp_path / "orders.py").read_text()


def test_names_that_python_has_to_escape_are_declared(tmp_path: Path) -> None:
    odd = "com.example.\"Bestellung'\\ü\n"
    topic = declared(tmp_path, [event(n, type=odd, dataschema=odd) for n in range(2)])
    assert topic.records == CloudEvents({odd: "order.placed"}, {odd: 1})


def test_the_type_that_is_asked_for_is_taken_before_a_more_frequent_one() -> None:
    lines = [json.dumps(event(n, type="OrderSent" if n else "OrderPlaced")) for n in range(5)]
    assert infer_topic("order.placed", lines).arguments == ('types={"OrderPlaced": "order.placed"}',)
    assert infer_topic("thing.done", lines).arguments == ('types={"OrderSent": "thing.done"}',)


def test_data_that_is_no_object_is_named() -> None:
    lines = [json.dumps(event(0)), json.dumps(event(1, data=None, data_base64="e30="))]
    (said,) = infer_topic("order.placed", lines).left_out
    assert said == "1 of 2 events have no JSON object as their data (data_base64 isn't read)"
    with pytest.raises(BadInput, match="has a JSON object as its data"):
        infer_topic("order.placed", lines[1:])


@pytest.mark.parametrize(
    ("sent", "ours"),
    [
        ("com.example.OrderPlaced", "order.placed"), ("OrderPlaced", "order.placed"), ("order-placed", "order.placed"),
        ("order.placed", "order.placed"), ("OrderLineItemAdded", "order_line_item.added"), ("Orders", "orders.sent"),
        ("com.github.push", "com.github.push"), ("com.GitHub.push", "git_hub.push"),
        ("", "record.sent"), ("42", "record.sent"), ("é", "record.sent"),
        ("shop/order/placed", "order.placed"),
    ],
)  # fmt: skip
def test_a_name_of_ours_is_proposed(sent: str, ours: str) -> None:
    assert proposed_type(sent) == ours


@given(st.text(max_size=120) | st.from_regex(r"([A-Z]?[a-z]+[./_-]?){1,12}", fullmatch=True))
def test_what_is_proposed_is_an_event_type(sent: str) -> None:
    assert EVENT_TYPE.fullmatch(proposed_type(sent))


def test_records_in_binary_mode_are_read_with_their_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = tuple((f"ce_{name}", text.encode()) for name, text in event(1).items() if name != "data")
    value = b'{"orderId": "o-1", "cents": 0.10}'
    assert json.loads(as_structured(value, headers)) == {**event(1), "data": json.loads(value)}
    assert as_structured(value, (("trace", b"1"),)) == value
    records = [LogRecord("shop.Orders", 0, n, None, None, value, headers) for n in range(3)]
    monkeypatch.setattr("anabranch.ingest.kafka.look.newest", lambda *_: records)
    monkeypatch.setattr(_contract_commands, "project", lambda: (None, None))
    command = ["contracts", "infer", "--log", "--topic", "shop.Orders", "--type", "order.placed", "--json"]
    told = json.loads(CliRunner().invoke(app, command).output)
    assert [*told["contract"]["schema"]["properties"]] == ["orderId", "cents"]
    assert 'types={"com.example.OrderPlaced": "order.placed"}' in told["declaration"]
    assert 'kafka_topic="shop.Orders"' in told["declaration"]
    assert common_type(_contract_commands.json_lines("shop.Orders", records)) == "order.placed"
    assert common_type(["{}", "{"]) == common_type([]) == ""
