"""A topic may have another name in Kafka than here."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.contracts import Contract, Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations, find_topic
from anabranch.contracts.model.topics import TOPIC_NAME, proposed_name
from anabranch.core.errors import BadDefinition, BadInput

pytestmark = pytest.mark.unit
PLACED = Contract("order.placed", 1, {"type": "object", "properties": {"orderId": {"type": "string"}}})
FILE = """from anabranch.contracts import Contract, Topic
SCHEMA = {{"type": "object", "properties": {{"n": {{"type": "integer"}}}}}}
{0} = Topic("{0}", (Contract("{1}", 1, SCHEMA),), kafka_topic="{2}")
"""


@pytest.mark.parametrize("name", ["prod.orders-v2", "Orders", "_orders", "1", "o" * 249, "...", "orders"])
def test_kafka_may_call_it_as_kafka_allows(name: str) -> None:
    topic = Topic("orders", (PLACED,), kafka_topic=name)
    assert (topic.name, topic.in_kafka) == ("orders", name)
    assert topic.full_name == ("orders" if name == "orders" else f"orders ({name} in Kafka)")


def test_without_a_name_of_its_own_there_it_is_ours() -> None:
    topic = Topic("orders", (PLACED,))
    assert (topic.in_kafka, topic.full_name) == ("orders", "orders")


@pytest.mark.parametrize("name", [".", "..", "o" * 250, "orders/v2", "orders v2", "Bestellungen_ü", "orders\n"])
def test_what_kafka_forbids_is_refused(name: str) -> None:
    with pytest.raises(BadDefinition) as error:
        Topic("orders", (PLACED,), kafka_topic=name)
    assert error.value.code == "TOPIC_NAME"
    assert error.value.what == f"orders: {name!r} is no name of a topic in Kafka"


def test_a_name_that_only_kafka_allows_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadDefinition) as error:
        Topic("prod.orders-v2", (PLACED,))
    assert 'Topic("prod_orders_v2", kafka_topic="prod.orders-v2", ...)' in error.value.next_step


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("prod.orders-v2", "prod_orders_v2"),
        ("Orders", "orders"),
        ("orderEvents.EU", "order_events_eu"),
        ("_internal", "internal"),
        ("2024-orders", "topic_2024_orders"),
        ("...", "topic"),
        ("o" * 249, "o" * 63),
    ],
)
def test_a_name_of_ours_is_proposed(name: str, ours: str) -> None:
    assert proposed_name(name) == ours
    assert TOPIC_NAME.fullmatch(ours)


@pytest.mark.parametrize(("first", "second"), [("shop.orders", "shop.orders"), ("returns", ""), ("", "orders")])
def test_two_declared_topics_are_never_the_same_one_of_kafka(tmp_path: Path, first: str, second: str) -> None:
    (tmp_path / "orders.py").write_text(FILE.format("orders", "order.placed", first))
    (tmp_path / "returns.py").write_text(FILE.format("returns", "order.returned", second))
    with pytest.raises(BadDefinition) as error:
        load_declarations(tmp_path)
    assert error.value.code == "TOPIC_TWICE"
    assert f"returns and orders are both the topic {first or second} of Kafka" in error.value.what


def test_names_may_be_exchanged(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(FILE.format("orders", "order.placed", "returns"))
    (tmp_path / "returns.py").write_text(FILE.format("returns", "order.returned", "orders"))
    declared = load_declarations(tmp_path)
    found = declared.find("orders")
    assert found is not None
    assert (found.name, found.in_kafka) == ("orders", "returns"), "what is declared comes first"


def test_it_is_found_by_either_name(tmp_path: Path) -> None:
    declared = Declarations({"orders": Topic("orders", (PLACED,), kafka_topic="prod.orders")})
    assert declared.find("orders") is declared.find("prod.orders") is declared.topic("orders")
    assert declared.find("prod") is None
    with pytest.raises(BadInput) as error:
        declared.topic("prod.orders")
    assert error.value.next_step == "write orders: it is called prod.orders in Kafka only"
    (tmp_path / "torn.py").write_text("x = (")
    assert find_topic(tmp_path, "orders") is None, "commands for any topic go on while a file is being edited"
