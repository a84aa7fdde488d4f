"""Queues of RabbitMQ whose messages become records of a topic, as they are declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.contracts.model.records import Mapped, Record
from anabranch.contracts.model.topics import Topic
from anabranch.core.errors import BadDefinition

MOST_PREFETCH = 10_000


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the virtual host in ``ANABRANCH_AMQP_URL``. It must exist: nothing of RabbitMQ is ever created.

    ``topic``: the name of the declared topic. ``prefetch``: the most messages that may be taken without being
    acknowledged; they are in memory. ``headers``: headers and properties of messages (``message-id``) that become
    headers of the record, in addition to those of CloudEvents and those that the topic's mapping names. ``key``: the
    header or property whose text is the record's key; by default it is the subject, else the id.
    """

    name: str
    topic: str
    prefetch: int = 1_000
    headers: tuple[str, ...] = ()
    key: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.name.encode()) <= 255:
            raise _refused(self, "a name has 1 to 255 bytes", "give the queue's name in RabbitMQ")
        if not 1 <= self.prefetch <= MOST_PREFETCH:
            raise _refused(self, f"prefetch {self.prefetch} is not in 1 to {MOST_PREFETCH:,}", "give fewer, or more")
        if "" in self.headers:
            raise _refused(self, "a header needs a name", "leave out the empty one")


def check_queues(queues: Iterable[Queue], topics: Mapping[str, Topic]) -> None:
    """Raises BadDefinition QUEUE for a queue whose topic isn't declared, or can't be filled from it; or for two of one
    name."""
    names = set[str]()
    for queue in queues:
        topic = topics.get(queue.topic)
        if topic is None:
            declared = ", ".join(sorted(topics)) or "none"
            raise _refused(queue, f"no topic {queue.topic!r} is declared", f"declared topics: {declared}")
        if queue.name in names:
            raise _refused(queue, "it is declared twice", "a message is taken once: declare the queue once")
        names.add(queue.name)
        records = topic.records
        if isinstance(records, Mapped) and Record.KEY in (*records.needed_parts, records.subject) and not queue.key:
            what = f"the records of {topic.name} are read by their key, and messages have none"
            raise _refused(queue, what, 'name a header or property that is the key: key="message-id"')


def _refused(queue: Queue, what: str, advice: str) -> BadDefinition:
    return BadDefinition("QUEUE", f"queue {queue.name!r}: {what}", next_step=advice, queue=queue.name)
