"""Money from the record to the reader: both paths sum decimals to the cent, where floating point does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import anabranch
import pyarrow as pa
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.contracts import Record as RecordPart
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.engine.spark import LIVE, small
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor import Context, decode_check, examine
from anabranch.views import Registry, view
from anabranch.views.check import check
from anabranch.views.model.handle import ViewHandle
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F
from support.landed_bytes import landing_of
from support.naive_reader import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
MONEY: dict[str, Any] = {"format": "decimal", "precision": 18, "scale": 2}
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["city", "amount", "fee"],
        "properties": {
            "city": {"type": "string"},
            "amount": {"type": "string", **MONEY, "minimum": "-99.99"},
            "fee": {"type": "number", **MONEY},
        },
    },
)
MAPPING = PlainJson(id=RecordPart.OFFSET, time=RecordPart.APPEND_TIME)
PAYMENTS = Topic("payments", (PAID,), partitions=1, records=MAPPING, allowed_lateness=timedelta(days=2))
DECLARED = Declarations({PAYMENTS.name: PAYMENTS})
NOON, DAYS = datetime(2024, 3, 1, 12, tzinfo=UTC), [date(2024, 3, 1), date(2024, 3, 2)]


@view(name="takings", version=1, events="payment.made", key=["day", "city"], partition_by="day")
def takings(paid: DataFrame) -> DataFrame:
    daily = paid.groupBy(F.window("event_time", "1 day"), "city").agg(
        F.sum("amount").alias("amount"), F.sum("fee").alias("fee"), F.count("*").alias("payments")
    )
    return daily.select(F.to_date("window.start").alias("day"), "city", "amount", "fee", "payments")


@dataclass(frozen=True)
class Payment:
    """``amount`` is sent as a string, ``fee`` as a number, both as they are written here."""

    city: str
    amount: str
    fee: str
    hours: int = 0

    @property
    def text(self) -> str:
        return f'{{"city":{json.dumps(self.city)},"amount":"{self.amount}","fee":{self.fee}}}'


PAIR = [Payment("Rome", "0.10", "0.10"), Payment("Rome", "0.20", "0.20")]
LARGE = [
    Payment("Oslo", f"{10**12 + 7919 * n}.{n % 100:02}", f"{-(10**12) - 104_729 * n}.{(37 * n + 1) % 100:02}", n % 30)
    for n in range(200)
]
SMALL = [Payment("Oslo", "-99.99", "-0.01"), Payment("Rome", "-0.3", "9007199254740993.00", 13)]
LARGEST = [Payment("Bonn", "9999999999999999.99", "-9999999999999999.99"), Payment("Bonn", "0.01", "0.02")]
EPOCHS: list[list[Payment]] = [[*PAIR, *LARGE[::2]], [*SMALL, *LARGE[1::2], *LARGEST]]
REFUSED = [Payment("Rome", "0.105", "1"), Payment("Rome", "1", "0.30000000000000004"), Payment("Rome", "-100", "1e2")]


def land(spark: SparkSession, settings: Settings, topic: Topic, epochs: Sequence[Sequence[Payment]]) -> None:
    """Each list as an epoch, and the view's stream behind it."""
    records, of_epochs = list[Record](), list[list[Record]]()
    for epoch in epochs:
        first = len(records)
        records += [
            Record(topic.name, 0, first + n, NOON + timedelta(hours=each.hours), each.text.encode())
            for n, each in enumerate(epoch)
        ]
        of_epochs.append(records[first:])
    with landing_of(spark, settings, topic, records) as landing:
        for epoch_records in of_epochs:
            landing.land(epoch_records)
            catch_up(small(spark), ViewHandle(settings, takings, topic))


def sums(number: type, payments: Sequence[Payment]) -> dict[tuple[date, str], tuple[Any, Any]]:
    """In plain Python, by the numbers of one type."""
    found: dict[tuple[date, str], tuple[Any, Any]] = {}
    for each in payments:
        key = ((NOON + timedelta(hours=each.hours)).date(), each.city)
        amount, fee = found.get(key, (number(0), number(0)))
        found[key] = (amount + number(each.amount), fee + number(each.fee))
    return found


def rows(reading: anabranch.Reading) -> dict[tuple[date, str], tuple[Decimal, Decimal]]:
    return {(row["day"], row["city"]): (row["amount"], row["fee"]) for row in reading.to_arrow().to_pylist()}


def test_the_data_is_such_that_doubles_lose_cents() -> None:
    payments = [each for epoch in EPOCHS for each in epoch]
    exact, double = sums(Decimal, payments), sums(float, payments)
    cents = {key: tuple(Decimal(value).quantize(Decimal("0.01")) for value in pair) for key, pair in double.items()}
    assert sum(pair != cents[key] for key, pair in exact.items()) >= 3
    assert double[DAYS[0], "Rome"][0] != 0.3


def test_both_paths_are_exact_to_the_cent(spark: SparkSession, settings: Settings) -> None:
    handle = ViewHandle(settings, takings, PAYMENTS)
    check(takings, spark, DECLARED)
    land(spark, settings, PAYMENTS, [[*EPOCHS[0], *REFUSED], EPOCHS[1]])
    expected = sums(Decimal, [each for epoch in EPOCHS for each in epoch])

    streamed = anabranch.read("takings", settings=settings)
    assert set(streamed.halves.values()) == {"speed"}
    assert rows(streamed) == expected

    own = small(spark)
    build = rebuild(own, handle, DAYS, "money")
    certificates = certify(own, handle, DAYS, StagedBuild.of(settings, build))
    assert [(c.partition, c.equal, c.speed.rows) for c in certificates] == [(DAYS[0], True, 3), (DAYS[1], True, 2)]
    publish(handle, build, DAYS)
    published = anabranch.read("takings", settings=settings)
    assert set(published.halves.values()) == {"batch"}
    assert rows(published) == expected
    assert published.to_arrow().schema.field("amount").type == pa.decimal128(28, 2)

    total = sum((amount for amount, _ in rows(published).values()), Decimal(0))
    assert total == sum(Decimal(each.amount) for epoch in EPOCHS for each in epoch)
    cents = anabranch.read("takings", settings=settings, where="amount = 0.30 and fee < 0.31")
    assert rows(cents) == {(DAYS[0], "Rome"): (Decimal("0.30"), Decimal("0.30"))}

    _a_cent_more(settings)
    platform = Context(settings, DECLARED, Registry([], DECLARED))
    (finding,) = examine(platform, [decode_check(small(spark, LIVE))], pause=0).findings
    assert finding.code == "RECORD_DIFFERS"
    assert "1 rows differ" in finding.what
    assert "offset 0," in finding.where


def _a_cent_more(settings: Settings) -> None:
    """In one landed row, without a word about it."""
    uri = landing_table(settings, PAYMENTS.name)
    table = DeltaTable(uri).to_pyarrow_table().sort_by("offset")
    landed = table.to_pylist()
    decisions = [row["decision"] for row in landed]
    assert (decisions.count("valid"), decisions.count("quarantined")) == (206, 3)
    landed[0]["payment_made"]["amount"] += Decimal("0.01")
    write_deltalake(uri, pa.Table.from_pylist(landed, table.schema), mode="overwrite", partition_by=[EVENT_DATE])
