"""Looks at records as they are in the log: the newest ones, one at a place, or what comes from now on."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka import Message

from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.core.text import strict_json
from anabranch.core.text.terminal_text import in_json
from anabranch.ingest.kafka._assigned_consumer import PATIENCE_SECONDS, assigned, is_end
from anabranch.ingest.kafka.admin import begin_offsets, end_offsets, existing_topics
from anabranch.ingest.kafka.client import moment_of, translate_error, unreachable

_LINE_BREAKS: Final = re.compile(r"[\r\n]+")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as a client of Kafka sees it. ``headers``: names may repeat. ``append_time`` is the broker's, or the
    producer's on topics of others."""

    topic: str
    partition: int
    offset: int
    append_time: datetime | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def to_json(self) -> str:
        """One line of JSON. A value that is JSON stands there as it was sent, digit for digit, with control characters
        escaped; other values, keys and headers are texts, or ``{"base64": ...}`` if they are none."""
        content = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "append_time": self.append_time.isoformat() if self.append_time else None,
            "key": shown(self.key),
            "headers": [[name, shown(value)] for name, value in self.headers],
        }
        return in_json(f'{json.dumps(content, ensure_ascii=False)[:-1]}, "value": {_content(self.value)}}}')


def newest(settings: Settings, topic: str, count: int) -> list[LogRecord]:
    """Return the newest ``count`` records, oldest first. Raises BadInput TOPIC_MISSING, BROKER_UNREACHABLE."""
    begin, end = _ends(settings, topic)
    spans = {p: (max(begin[p], end[p] - count), end[p]) for p in end if end[p] > begin[p]}
    found = list(_read(settings, topic, spans))
    floor = datetime.min.replace(tzinfo=UTC)
    found.sort(key=lambda record: (record.append_time or floor, record.partition, record.offset))
    return found[-count:]


def at(settings: Settings, topic: str, partition: int, offset: int) -> LogRecord | None:
    """Return the record at a place; None if the log holds none there (any more). Raises as ``newest``."""
    begin, end = _ends(settings, topic)
    if not begin.get(partition, 0) <= offset < end.get(partition, 0):
        return None
    read = _read(settings, topic, {partition: (offset, offset + 1)})
    return next((record for record in read if record.offset == offset), None)


def follow(settings: Settings, topic: str) -> Iterator[LogRecord]:
    """Yield what comes from now on, until the caller stops. Raises as ``newest``."""
    _, end = _ends(settings, topic)
    for message in _messages(settings, topic, end):
        if message is not None and not is_end(message):
            yield _record(message)


def _ends(settings: Settings, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    if topic not in (known := existing_topics(settings)):
        mine = sorted(name for name in known if not name.startswith("_"))
        raise BadInput(
            "TOPIC_MISSING",
            f"{settings.brokers} has no topic {topic!r}",
            next_step=f"it has {', '.join(mine) or 'none'}",
            topic=topic,
        )
    return dict(begin_offsets(settings, topic)), dict(end_offsets(settings, topic))


def _read(settings: Settings, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[LogRecord]:
    """Yield the records of each span; offsets without a record (markers of transactions) are passed over."""
    last = {p: until - 1 for p, (_, until) in spans.items()}
    if not last:
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    with closing(_messages(settings, topic, {p: first for p, (first, _) in spans.items()})) as messages:
        for message in messages:
            if message is None:
                if time.monotonic() > deadline:
                    raise unreachable(settings, f"reading {topic}", f"nothing came for {PATIENCE_SECONDS:.0f} s")
                continue
            deadline = time.monotonic() + PATIENCE_SECONDS
            partition, offset = message.partition() or 0, message.offset() or 0
            if not is_end(message) and offset <= last.get(partition, -1):
                yield _record(message)
            if is_end(message) or offset >= last.get(partition, offset):
                last.pop(partition, None)
            if not last:
                return


def _messages(settings: Settings, topic: str, first: Mapping[int, int]) -> Generator[Message | None, None, None]:
    """Yield records and ends of partitions as they come; None when nothing came for half a second. Never ends."""
    doing = f"reading {topic}"
    with assigned(settings, topic, first, doing, gone="earliest") as (consumer, heard):
        while True:
            message = consumer.poll(0.5)
            if heard.refused:
                raise translate_error(settings, heard.refused, doing)
            if message is not None and not is_end(message) and (error := message.error()) is not None:
                raise translate_error(settings, error, doing)
            yield message


def _record(message: Message) -> LogRecord:
    kind, milliseconds = message.timestamp()
    moment = moment_of(int(milliseconds)) if kind else None
    given: Iterable[Any] = message.headers() or ()
    headers = tuple((str(name), _bytes(value)) for name, value in given)
    return LogRecord(
        str(message.topic()), message.partition() or 0, message.offset() or 0, moment, _bytes(message.key()),
        _bytes(message.value()), headers,
    )  # fmt: skip


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def shown(value: bytes | None) -> str | dict[str, str] | None:
    """Text, or base64 of what is none."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _content(value: bytes | None) -> str:
    text = shown(value)
    if isinstance(text, str):
        try:
            strict_json.loads(text)
        except ValueError:
            pass
        else:
            return _LINE_BREAKS.sub(" ", text.strip("\r\n"))  # none of JSON is within a text
    return json.dumps(text, ensure_ascii=False)
