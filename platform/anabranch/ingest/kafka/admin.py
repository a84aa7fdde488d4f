"""Manages topics on the broker: creates declared topics, reports drift, reads ids and offsets.

Every call opens its own connection, returns or fails within about ten seconds (whatever happens to the machine's
clock), and is safe to repeat. A ``topic`` that is a text is its name in Kafka (``Topic.in_kafka``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType, TopicMetadata

from anabranch.contracts import Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka._destroying import DestroyedBeside
from anabranch.ingest.kafka.client import REACH_SECONDS, ConnectionErrors, bad_options, client_config, translate_error

T = TypeVar("T")
_CALL_SECONDS, _SPARE_SECONDS = 10.0, 1.0


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between a topic on the broker and its declaration."""

    topic: str
    setting: str
    """``topic`` (it is missing), ``partitions``, ``replication``, or the name of a broker setting."""
    declared: str
    found: str

    @property
    def missing(self) -> bool:
        return self.setting == "topic"


class Admin(DestroyedBeside, AdminClient):
    """A client that remembers why the broker rejected it."""

    def __init__(self, settings: Settings) -> None:
        self.heard = ConnectionErrors()
        try:
            super().__init__(client_config(settings, {"socket.connection.setup.timeout.ms": 4000}, {}, self.heard))
        except (KafkaException, ValueError, TypeError) as error:
            raise bad_options(settings, error) from None


def existing_topics(settings: Settings, admin: Admin | None = None) -> dict[str, int]:
    """Every topic of the broker with its number of partitions. Raises BROKER_UNREACHABLE after 5 s, or
    BROKER_LOGIN_REFUSED or BROKER_UNTRUSTED."""
    admin = Admin(settings) if admin is None else admin
    for seconds in REACH_SECONDS:
        try:
            found = _listed(admin, seconds)
        except KafkaException as error:
            admin.poll(0)  # calls ``heard`` with errors of the connection
            reason = translate_error(settings, admin.heard.refused or error, "listing topics")
        else:
            return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}
        if admin.heard.refused:
            break
    raise reason


def _listed(admin: Admin, seconds: float, topic: str = "") -> dict[str, TopicMetadata]:
    """What the broker says of all topics or of one. Asked in a thread of its own: librdkafka waits by the machine's
    clock, and where that is set back by a day meanwhile, for a day. Raises KafkaException."""
    answer = Future[dict[str, TopicMetadata]]()

    def ask() -> None:
        try:
            answer.set_result(admin.list_topics(topic or None, timeout=seconds).topics)
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="kafka-topics", daemon=True).start()
    return _answer(answer, seconds)


def _answer(future: Future[T], seconds: float | None = None) -> T:
    """Raises KafkaException, also where librdkafka doesn't keep to the time that it was given."""
    seconds = _CALL_SECONDS if seconds is None else seconds
    try:
        return future.result(timeout=seconds + _SPARE_SECONDS)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.1f} s")) from None


def create_missing(settings: Settings, topics: Iterable[Topic]) -> tuple[str, ...]:
    """Create those of our own ``topics`` that don't exist and wait until they are writable; returns their names."""
    admin = Admin(settings)
    existing = existing_topics(settings, admin)
    missing = [topic for topic in topics if topic.owned and topic.in_kafka not in existing]
    if not missing:
        return ()
    futures = admin.create_topics(
        [
            # -1: the broker's own default; the embedded broker is a single node
            NewTopic(
                t.in_kafka,
                num_partitions=t.partitions,
                replication_factor=-1 if t.replication is None else t.replication,
                config=t.broker_config,
            )
            for t in missing
        ],
        operation_timeout=_CALL_SECONDS,
        request_timeout=_CALL_SECONDS,
    )
    for name, answer in futures.items():
        try:
            _answer(answer)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translate_error(settings, error, f"creating topic {name}") from None
    _wait_for_leaders(settings, admin, tuple(topic.in_kafka for topic in missing))
    return tuple(topic.name for topic in missing)


def _wait_for_leaders(settings: Settings, admin: Admin, names: tuple[str, ...]) -> None:
    deadline = time.monotonic() + _CALL_SECONDS
    while time.monotonic() < deadline:
        found = _listed(admin, sum(REACH_SECONDS))
        if all(n in found and all(p.leader >= 0 for p in found[n].partitions.values()) for n in names):
            return
        time.sleep(0.05)
    raise TryAgain(
        "TOPIC_NOT_READY",
        f"topics {', '.join(names)} were created, but have no leader after {_CALL_SECONDS:.0f} s",
        next_step="read the broker's log, then try again",
        topics=names,
    )


def drift(settings: Settings, topics: Iterable[Topic]) -> tuple[Drift, ...]:
    """All differences between the broker's topics and their declarations, including missing topics. The settings of
    topics that others own are theirs."""
    admin = Admin(settings)
    existing = existing_topics(settings, admin)
    found: list[Drift] = []
    for topic in topics:
        if topic.in_kafka not in existing:
            found.append(Drift(topic.name, "topic", "declared", "missing"))
            continue
        if not topic.owned:
            continue
        if existing[topic.in_kafka] != topic.partitions:
            found.append(Drift(topic.name, "partitions", str(topic.partitions), str(existing[topic.in_kafka])))
        if topic.replication is not None and (copies := _copies(admin, topic.in_kafka)) != topic.replication:
            found.append(Drift(topic.name, "replication", str(topic.replication), str(copies)))
        held = topic_settings(settings, topic.in_kafka, admin)
        found += [
            Drift(topic.name, setting, declared, held.get(setting, "unknown"))
            for setting, declared in topic.broker_config.items()
            if held.get(setting) != declared
        ]
    return tuple(found)


def _copies(admin: Admin, topic: str) -> int:
    """The copies of the partition that has the fewest."""
    found = _listed(admin, sum(REACH_SECONDS), topic)[topic].partitions.values()
    return min((len(partition.replicas) for partition in found), default=0)


def topic_settings(settings: Settings, topic: str, admin: Admin | None = None) -> dict[str, str]:
    """The broker's settings of a topic."""
    admin = Admin(settings) if admin is None else admin
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (answer,) = admin.describe_configs([resource], request_timeout=_CALL_SECONDS).values()
    try:
        return {name: str(entry.value) for name, entry in _answer(answer).items()}
    except KafkaException as error:
        raise translate_error(settings, error, f"reading the settings of topic {topic}") from None


def ensure_topics(settings: Settings, declarations: Declarations, names: Iterable[str]) -> tuple[str, ...]:
    """Create the missing topics among ``names`` and return them. Raises Conflict TOPIC_DRIFT if one differs from its
    declaration."""
    topics = [declarations.topic(name) for name in names]
    created = create_missing(settings, topics)
    differences = drift(settings, topics)
    if differences:
        listed = "; ".join(f"{d.topic}: {d.setting} is {d.found}, declared {d.declared}" for d in differences)
        raise Conflict(
            "TOPIC_DRIFT",
            f"the broker's topics differ from their declarations: {listed}",
            state="nothing was sent",
            next_step="anabranch topics drift; then change the declaration or the topic (kafka-configs, kafka-topics)",
            drift=differences,
        )
    return created


def topic_id(settings: Settings, topic: str) -> str:
    """The id that the broker gave this topic when it was created; a topic that is created again gets another one.
    Raises BadInput TOPIC_MISSING."""
    admin = Admin(settings)
    existing_topics(settings, admin)  # fails fast, with the reason, if the broker rejects us
    try:
        (answer,) = admin.describe_topics(TopicCollection([topic]), request_timeout=_CALL_SECONDS).values()
        return str(_answer(answer).topic_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _missing(settings, topic) from None
        raise translate_error(settings, error, f"asking for the id of topic {topic}") from None


def begin_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """The first offset that each partition still holds; earlier ones were deleted by retention."""
    return _offsets(settings, topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def end_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """The offset that each partition's next record will get."""
    return _offsets(settings, topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def readable_ends(settings: Settings, topic: str) -> dict[int, int]:
    """The end of what is readable in each partition (Kafka's last stable offset): the first record of an open
    transaction, otherwise the same as ``end_offsets``."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _offsets(settings, topic, latest, IsolationLevel.READ_COMMITTED)


def _offsets(
    settings: Settings, topic: str, spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
) -> dict[int, int]:
    admin = Admin(settings)
    partitions = existing_topics(settings, admin).get(topic)
    if partitions is None:
        raise _missing(settings, topic)
    requests = {TopicPartition(topic, number): spec for number in range(partitions)}
    try:
        answers = admin.list_offsets(requests, isolation_level=isolation, request_timeout=_CALL_SECONDS)
        return {tp.partition: _answer(answer).offset for tp, answer in answers.items()}
    except KafkaException as error:
        raise translate_error(settings, error, f"asking for offsets of topic {topic}") from None


def offsets_since(settings: Settings, topic: str, moment: datetime) -> dict[int, int]:
    """The first offset of each partition whose record is as old as ``moment`` or newer; left out where there is
    none."""
    since = OffsetSpec.for_timestamp(int(moment.timestamp() * 1_000))
    return {partition: offset for partition, offset in _offsets(settings, topic, since).items() if offset >= 0}


def _missing(settings: Settings, topic: str) -> BadInput:
    return BadInput(
        "TOPIC_MISSING",
        f"{settings.brokers} has no topic {topic!r}",
        next_step="anabranch topics create",
        topic=topic,
    )
