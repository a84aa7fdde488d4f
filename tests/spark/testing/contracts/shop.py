"""The topics of the corpus: a shop and its customers, whose contracts bound little: extremes and nulls are drawn."""

from __future__ import annotations

from datetime import timedelta

from anabranch.contracts import Contract, Topic

_TEXT = {"type": "string"}
_ORDER = {"type": "string", "pattern": "^[AB][0-9]$"}
_PLACED = {
    "order": _ORDER,
    "customer": {"type": "string", "enum": ["ann", "bob", "cy"]},
    "amount": {"type": "integer"},
    "coupon": _TEXT,
}


def _contract(name: str, version: int, required: list[str], **fields: object) -> Contract:
    return Contract(name, version, {"type": "object", "required": required, "properties": fields})


PLACED = _contract("order.placed", 1, ["order", "customer", "amount"], **_PLACED)
PLACED_SINCE = _contract(
    "order.placed",
    2,
    ["order", "customer", "amount"],
    **_PLACED,
    promised={"type": "string", "format": "date-time"},
    items={"type": "array", "items": _TEXT},
)
PAID = _contract(
    "order.paid",
    1,
    ["order", "amount"],
    order=_ORDER,
    amount={"type": "integer", "minimum": 0, "maximum": 1_000_000},
    method={"type": "string", "enum": ["card", "cash"]},
    fee={"type": "number"},
)
SHIPPED = _contract("order.shipped", 1, ["order"], order=_ORDER, weight={"type": "number", "minimum": 0})

SHOP = Topic(
    "shop",
    contracts=(PLACED, PLACED_SINCE, PAID, SHIPPED),
    partitions=2,
    retention=timedelta(days=30),
    allowed_lateness=timedelta(hours=1),
)

_MONEY = {"format": "decimal", "precision": 12, "scale": 2}
BILLED = _contract(
    "order.billed",
    1,
    ["order", "net"],
    order=_ORDER,
    net={"type": "string", **_MONEY},
    tax={"type": "number", **_MONEY},
)

BILLS = Topic("bills", contracts=(BILLED,), partitions=2, allowed_lateness=timedelta(hours=1))

TAGGED = _contract(
    "order.tagged",
    1,
    ["order"],
    order=_ORDER,
    tags={"type": "array", "items": {"type": ["string", "null"]}},
    stock={"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
)

TAGS = Topic("tags", contracts=(TAGGED,), partitions=2, allowed_lateness=timedelta(hours=1))

MOVED = _contract("customer.moved", 1, ["customer"], customer=_PLACED["customer"], city={"type": "string"})

CUSTOMERS = Topic("customers", contracts=(MOVED,), partitions=1, allowed_lateness=timedelta(hours=3))
