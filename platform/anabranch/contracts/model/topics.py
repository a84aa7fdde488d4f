"""Topics as they are declared: their contracts, the broker's settings, and the parameters of landing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Final

from anabranch.contracts.fields.field_types import Node, ShapesClash, merge, sent_names
from anabranch.contracts.model._declared_types import check_types
from anabranch.contracts.model._mapping_check import check_mapping
from anabranch.contracts.model.compatibility import allowed_from_upcaster, check_versions
from anabranch.contracts.model.contract import Contract
from anabranch.contracts.model.records import CloudEvents, Records
from anabranch.contracts.model.upcasters import Upcaster, check_upcasters
from anabranch.core.errors import BadDefinition

RETENTION_ALARM = timedelta(hours=12)
TOPIC_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
KAFKA_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""What Kafka allows."""
LANDING_COLUMNS: Final = frozenset({
    "topic", "partition", "offset", "append_time", "key", "value", "headers", "epoch", "decision", "reason", "late",
    "released_from", "event_id", "source", "type", "subject", "contract_version", "device_time", "senttime",
    "receivedtime", "event_time", "event_date",
})  # fmt: skip
"""The columns that a landing table has beside those of its event types (``ingest.landing.table.schema``)."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the log.

    ``allowed_lateness`` is L in "late if event_time < W(e) - L". Duplicates by (source, id) are detected if their
    append times are within ``duplicate_horizon``. An event is quarantined if its (corrected) time is more than
    ``future_bound`` after its receipt, or before ``earliest_year``.
    ``contracts`` may hold several versions of an event type: events land with the version that they name, and views
    see the newest one, through ``upcasters``.
    ``kafka_topic``: its name in Kafka, where that is another one: tables, cuts, paths and commands have ``name``, and
    ``in_kafka`` is what the broker is asked for. It may change only while nothing has landed (LOG_REPLACED).
    ``records``: how records are read. ``owned``: False for a topic that others run: it is never created, its settings
    are theirs, and ``partitions`` is only what tests assume.
    ``replication``: copies of each partition, ``min_insync_replicas``: how many must have a record before it is
    acknowledged; None: as the broker says. ``retention_alarm``: `anabranch status` raises an alarm if retention may
    delete what has not landed within this time.
    """

    name: str
    contracts: tuple[Contract, ...]
    partitions: int = 4
    retention: timedelta = timedelta(days=30)
    allowed_lateness: timedelta = timedelta(hours=1)
    duplicate_horizon: timedelta = timedelta(days=7)
    future_bound: timedelta = timedelta(hours=1)
    earliest_year: int = 2000
    max_message_bytes: int = 1_048_576
    upcasters: tuple[Upcaster, ...] = ()
    records: Records = field(default=CloudEvents())
    owned: bool = True
    replication: int | None = None
    min_insync_replicas: int | None = None
    retention_alarm: timedelta = RETENTION_ALARM
    kafka_topic: str = ""

    def __post_init__(self) -> None:
        check_types(self)
        if not TOPIC_NAME.fullmatch(self.name):
            own, known = proposed_name(self.name), KAFKA_NAME.fullmatch(self.name)
            more = f'; or Topic("{own}", kafka_topic="{self.name}", ...), if it is called so in Kafka' if known else ""
            raise BadDefinition("TOPIC_NAME", f"{self.name!r} is no topic name", next_step=f"use a-z, 0-9 and _{more}")
        if self.kafka_topic and not KAFKA_NAME.fullmatch(self.kafka_topic):
            raise BadDefinition(
                "TOPIC_NAME",
                f"{self.name}: {self.kafka_topic!r} is no name of a topic in Kafka",
                next_step="write kafka_topic as the broker names it: at most 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
            )
        if self.partitions < 1 or not self.contracts:
            raise BadDefinition(
                "TOPIC_EMPTY",
                f"{self.name}: a topic needs a partition and a contract",
                next_step="give it partitions=1 or more, and the contracts of its events",
            )
        if min(self.allowed_lateness, self.future_bound) < timedelta(0):
            raise BadDefinition(
                "TOPIC_TIMES",
                f"{self.name}: allowed lateness and future bound can't be negative",
                next_step="give timedelta(0) or more",
            )
        copies, insync = self.replication or self.min_insync_replicas or 1, self.min_insync_replicas or 1
        if not 1 <= insync <= copies:
            raise BadDefinition(
                "TOPIC_COPIES",
                f"{self.name}: {insync} in-sync copies of {copies} can't be had",
                next_step="give replication=1 or more, and min_insync_replicas of at most that",
            )
        keys = [(c.name, c.version) for c in self.contracts]
        if len(set(keys)) != len(keys):
            raise BadDefinition(
                "TOPIC_CONTRACTS",
                f"{self.name}: a contract is listed twice",
                next_step="list each version of a contract once",
            )
        self._check_columns()
        check_mapping(self.name, self.records, self.contracts)
        check_upcasters(self.name, self.contracts, self.upcasters)
        check_versions(self.contracts, {(u.event_type, u.version) for u in self.upcasters})
        for event_type in self.event_types:
            self._check_shape(event_type)
        self._check_sent_names()

    def _check_columns(self) -> None:
        """Each event type has a column of its own in landing."""
        known: dict[str, str] = {}
        for event_type in self.event_types:
            column = self.newest(event_type).column
            clash = ""
            if column in LANDING_COLUMNS:
                clash = f"the column of {event_type} would be {column}, which is landing's own"
            elif (other := known.setdefault(column, event_type)) != event_type:
                clash = f"{other} and {event_type} would share the column {column}"
            if clash:
                raise BadDefinition(
                    "TOPIC_CONTRACTS", f"{self.name}: {clash}", next_step="give the event type another name"
                )

    def _check_shape(self, event_type: str) -> None:
        """A field that one version left out must not come back in a later one with another type."""
        try:
            self.shape(event_type)
        except ShapesClash as clash:
            raise BadDefinition(
                "FIELD_TYPES_CLASH",
                f"topic {self.name}: {event_type}: {clash.path} is {clash.one} in one version and {clash.other} in "
                "another",
                next_step="give the newer field another name",
            ) from None

    def _check_sent_names(self) -> None:
        """All contracts are parsed at once, so a field has one name in the records of the topic."""
        known: dict[str, str] = {}
        for contract in self.contracts:
            for path, sent in sent_names(contract.schema):
                if (other := known.setdefault(path, sent)) != sent:
                    raise BadDefinition(
                        "FIELD_TYPES_CLASH",
                        f"topic {self.name}: {path} is sent as {other!r} in one contract, as {sent!r} in "
                        f"{contract.uri}",
                        next_step="give one of them another name, or put them on two topics",
                    )

    @property
    def in_kafka(self) -> str:
        """Its name in Kafka: what the broker, its clients and a schema registry know it by."""
        return self.kafka_topic or self.name

    @property
    def full_name(self) -> str:
        """For messages: with its name in Kafka, where that is another one."""
        return self.name if self.in_kafka == self.name else f"{self.name} ({self.in_kafka} in Kafka)"

    @property
    def each(self) -> tuple[Topic, ...]:
        """Like ``Topics.each``: most views read one topic."""
        return (self,)

    def carrier(self, event_type: str) -> Topic:
        """Like ``Topics.carrier``: always this topic, even if it doesn't carry the type."""
        return self

    @property
    def event_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.name for c in self.contracts))

    def newest(self, event_type: str) -> Contract:
        """The newest version of an event type's contract. Raises KeyError if the topic doesn't carry the type."""
        versions = self.versions(event_type)
        if not versions:
            raise KeyError(event_type)
        return versions[-1]

    def versions(self, event_type: str) -> tuple[Contract, ...]:
        """All versions of an event type's contract, oldest first; empty if the topic doesn't carry the type."""
        return tuple(sorted((c for c in self.contracts if c.name == event_type), key=lambda c: c.version))

    def shape(self, event_type: str) -> Node:
        """The fields of an event type in landing: those of all its versions. Raises KeyError like ``newest``."""
        versions = self.versions(event_type)
        return merge(c.schema for c in versions) if len(versions) > 1 else self.newest(event_type).schema

    def upcaster(self, event_type: str, version: int) -> Upcaster | None:
        """The upcaster from this version; None if fields are only copied."""
        return next((u for u in self.upcasters if (u.event_type, u.version) == (event_type, version)), None)

    def as_sent(self, event_type: str, name: str) -> tuple[int, ...]:
        """The versions whose events hold a field of the newest contract unchanged, oldest first: no upcaster may have
        computed it."""
        versions = self.versions(event_type)
        found = [c.version for c in versions[-1:] if name in c.fields]
        for old, new in reversed(list(pairwise(versions))):
            upcast = self.upcaster(event_type, old.version) is not None and name in allowed_from_upcaster(old, new)
            if not found or name not in old.fields or upcast:
                break
            found.insert(0, old.version)
        return tuple(found)

    @property
    def broker_config(self) -> dict[str, str]:
        """The settings that the broker must have for this topic; differences are reported as drift."""
        return {
            "retention.ms": str(int(self.retention.total_seconds() * 1000)),
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self.max_message_bytes),
            "cleanup.policy": "delete",
            **({} if self.min_insync_replicas is None else {"min.insync.replicas": str(self.min_insync_replicas)}),
        }


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that one view reads. Each event type is carried by exactly one of them."""

    each: tuple[Topic, ...]

    def carrier(self, event_type: str) -> Topic:
        """The topic that carries an event type. Raises KeyError if none does."""
        for topic in self.each:
            if event_type in topic.event_types:
                return topic
        raise KeyError(event_type)

    def newest(self, event_type: str) -> Contract:
        """See ``Topic.newest``."""
        return self.carrier(event_type).newest(event_type)

    def versions(self, event_type: str) -> tuple[Contract, ...]:
        """See ``Topic.versions``."""
        return self.carrier(event_type).versions(event_type)

    def as_sent(self, event_type: str, name: str) -> tuple[int, ...]:
        """See ``Topic.as_sent``."""
        return self.carrier(event_type).as_sent(event_type, name)


Sources = Topic | Topics
"""The topics that a view reads."""


def proposed_name(in_kafka: str) -> str:
    """A name of ours for a topic of Kafka: ``prod.orders-v2`` becomes ``prod_orders_v2``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", in_kafka)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    name = name if name[:1].isalpha() else f"topic_{name}"
    return name[:63].rstrip("_")
