"""Fills the topics of the third act with a client of Kafka and Avro's own library. Imports nothing of the platform."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import confluent_kafka
import fastavro
from confluent_kafka.admin import AdminClient, NewTopic

DAYS: Final = 3
FIRST: Final = datetime(2024, 3, 1, tzinfo=UTC)
EACH: Final = 400
BROKEN: Final = 3
"""Records in each topic that nobody can read."""
DELETED: Final = 1
"""Tombstones in each topic: records with a key and no value."""
TOPICS: Final = ("card_payments", "web_orders")
_CITIES: Final = ("Rome", "Oslo", "Łódź")
_SCHEMA: Final = Path(__file__).parent / "shop" / "contracts" / "web.ordered.avsc"


@dataclass(frozen=True)
class Sold:
    """What the sender knows: money and sales by day and city, and how many records it sent to each topic."""

    money: Mapping[tuple[date, str], Decimal]
    sales: Mapping[tuple[date, str], int]
    records: Mapping[str, int]


def send_sales(client: Mapping[str, Any], seed: int = 2024) -> Sold:
    """Make both topics and fill them. ``client``: the settings of a client of Kafka. Raises KafkaException."""
    admin = AdminClient(dict(client))
    config = {"message.timestamp.type": "CreateTime"}
    for made in admin.create_topics([NewTopic(name, 2, 1, config=config) for name in TOPICS]).values():
        made.result(30)
    chance, producer = Random(seed), confluent_kafka.Producer(dict(client))  # noqa: S311
    schema = fastavro.parse_schema(json.loads(_SCHEMA.read_text()))
    money: dict[tuple[date, str], Decimal] = {}
    sales: dict[tuple[date, str], int] = {}
    for number in range(2 * EACH):
        at = FIRST + timedelta(seconds=chance.randrange(DAYS * 86_400))
        city, amount = chance.choice(_CITIES), Decimal(chance.randrange(100, 20_000)) / 100
        money[at.date(), city] = money.get((at.date(), city), Decimal(0)) + amount
        sales[at.date(), city] = sales.get((at.date(), city), 0) + 1
        if number % 2:
            payment = {"paymentId": f"p-{number}", "paidAt": int(at.timestamp() * 1000), "amount": str(amount)}
            producer.produce("card_payments", json.dumps({**payment, "city": city, "till": 4}).encode())
        else:
            stream = io.BytesIO()
            order = {"orderId": f"o-{number}", "placedAt": at, "total": amount, "city": city, "coupon": None}
            fastavro.schemaless_writer(stream, schema, order)
            producer.produce("web_orders", stream.getvalue())
    for broken in range(BROKEN):
        producer.produce("card_payments", b'{"paymentId": "x", "amount": 12.5}'[: 34 - broken])
        producer.produce("web_orders", b"\x06o-1" + bytes(broken))
    for topic in TOPICS:
        producer.produce(topic, None, b"sale-0")
    producer.flush(30)
    return Sold(money, sales, dict.fromkeys(TOPICS, EACH + BROKEN + DELETED))
