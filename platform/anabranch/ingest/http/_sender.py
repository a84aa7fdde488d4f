"""Gives records to the broker and waits for its answer, without a thread per request.

One thread polls the client of Kafka; the answers of a whole request end one future. What waits is bounded: beyond that,
or when a topic's oldest record waits too long, nothing more is taken (``Busy``; in the second case for this topic).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import confluent_kafka
from confluent_kafka import KafkaError, Message

from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.ingest.http._bodies import MOST_RECORDS, Prepared
from anabranch.ingest.kafka.batches import INVALID
from anabranch.ingest.kafka.client import client_failed, is_fatal
from anabranch.ingest.kafka.producer import open_client

log = logging.getLogger(__name__)
MOST_BYTES = 64 * 2**20
"""The most that may wait for the broker's answer, besides ``MOST_RECORDS``."""
SLOW_SECONDS = 2.0
"""A broker that hasn't answered for this long is behind."""
DELIVERY_SECONDS = 30
_POLL_SECONDS = 0.05
_LAST_SECONDS = 20.0


Place = tuple[int, int | None]
"""Partition and offset of a record. None: the broker had the record already when the client sent it again, and then it
names no offset."""


class Busy(Exception):
    """Nothing was taken: the broker is behind, or doesn't answer."""


class Undelivered(Exception):
    """Some records of a request may not be in the log."""


class Refused(Exception):
    """The broker never takes record ``number`` of a request; each of the others may or may not be in the log."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        super().__init__(why)


@dataclass(eq=False, slots=True)
class _Request:
    """The records of one request that wait for an answer. ``places``: as ``Sender.send`` returns them; ``refused``: the
    number of a record that the broker will never take."""

    topic: str
    done: asyncio.Future[list[Place]]
    places: list[Place]
    left: int
    size: int
    begun: float = field(default_factory=time.monotonic)
    error: KafkaError | None = None
    refused: int | None = None


class Sender:
    """Used by one event loop, between ``start`` and ``stop``."""

    def __init__(self, settings: Settings, declarations: Declarations) -> None:
        self._settings, self._declarations = settings, declarations
        self._client: confluent_kafka.Producer | None = None
        self._waiting: dict[str, dict[_Request, None]] = {}  # by topic, in the order of their arrival
        self._records = self._bytes = 0
        self._confirmed = float("-inf")  # when the broker last took all of a request
        self._answered: deque[_Request] = deque()
        self._fatal: KafkaError | None = None
        self._stopped, self._lock = threading.Event(), threading.Lock()
        self._poller = threading.Thread(target=self._poll, name="kafka-poll", daemon=True)

    def start(self) -> None:
        """Raises as ``open_client``."""
        self._loop = asyncio.get_running_loop()
        self._client = open_client(self._settings, self._declarations, linger_ms=2, delivery_seconds=DELIVERY_SECONDS)
        self._poller.start()

    async def stop(self) -> None:
        """Wait for the answers to what was taken, as long as the broker gives any."""
        until = time.monotonic() + _LAST_SECONDS
        while self._waiting and time.monotonic() < until:
            await asyncio.sleep(_POLL_SECONDS)
        self._stopped.set()
        await asyncio.to_thread(self._poller.join, 5.0)

    async def send(self, topic: str, records: Sequence[Prepared]) -> list[Place]:
        """Return the place of each record, once all of them are in the log.

        Raises Busy (nothing was taken), Undelivered (each record may or may not be in the log), or Refused.
        """
        size = sum(len(record.value) for record in records)
        self._check_room(topic, len(records), size)
        assert self._client is not None  # noqa: S101 - start() was called
        request = _Request(topic, self._loop.create_future(), [(-1, None)] * len(records), len(records), size)
        self._waiting.setdefault(topic, {})[request] = None
        self._records += len(records)
        self._bytes += size
        for number, record in enumerate(records):
            try:
                answered = partial(self._count_answer, request, number)
                self._client.produce(
                    topic, value=record.value, key=record.key, headers=list(record.headers or ()), on_delivery=answered
                )
            except (BufferError, confluent_kafka.KafkaException) as error:
                cause = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
                self._count(request, cause or KafkaError(KafkaError._QUEUE_FULL), number)
        return await request.done

    @property
    def behind(self) -> bool:
        """Whether a record has waited for too long, and the broker has confirmed nothing else meanwhile: one topic that
        is stuck (it was deleted, a partition has no leader) says nothing of the server."""
        quiet = time.monotonic() - self._confirmed > SLOW_SECONDS
        return quiet and any(self._is_behind(topic) for topic in self._waiting)

    def _is_behind(self, topic: str) -> bool:
        oldest = next(iter(self._waiting.get(topic, ())), None)
        return oldest is not None and time.monotonic() - oldest.begun > SLOW_SECONDS

    def _check_room(self, topic: str, records: int, size: int) -> None:
        if self._is_behind(topic) or self._records + records > MOST_RECORDS or self._bytes + size > MOST_BYTES:
            raise Busy

    def _poll(self) -> None:
        client = self._client
        assert client is not None  # noqa: S101 - started by start()
        try:
            while not self._stopped.is_set():
                client.poll(_POLL_SECONDS)
                if self._answered:
                    with suppress(RuntimeError):  # the loop has ended
                        self._loop.call_soon_threadsafe(self._settle)
                if self._fatal is not None:
                    time.sleep(_POLL_SECONDS)  # for the answers to the requests that it has failed
                    raise client_failed(self._settings, self._fatal)
        except Exception:
            log.critical("nobody would be answered any more: the process ends, and is started again", exc_info=True)
            os._exit(1)

    def _count_answer(self, request: _Request, number: int, error: KafkaError | None, message: Message) -> None:
        """Called by the polling thread, once for each record."""
        if error is None:
            request.places[number] = int(message.partition() or 0), message.offset()
        self._count(request, error, number)

    def _count(self, request: _Request, error: KafkaError | None, number: int) -> None:
        if error is not None and is_fatal(error):
            self._fatal = error
        with self._lock:
            if error is not None and error.code() == INVALID and request.refused is None:
                request.error, request.refused = error, number
            request.error = request.error or error
            request.left -= 1
            ended = request.left == 0
        if ended:
            self._answered.append(request)
            if threading.current_thread() is not self._poller:
                self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        while self._answered:
            request = self._answered.popleft()
            waiting = self._waiting.get(request.topic, {})
            waiting.pop(request, None)
            if not waiting:
                self._waiting.pop(request.topic, None)
            if request.error is None:
                self._confirmed = time.monotonic()
            self._records -= len(request.places)
            self._bytes -= request.size
            if request.done.done():  # the client of HTTP has gone
                continue
            if request.error is None:
                request.done.set_result(request.places)
            elif request.refused is not None:
                request.done.set_exception(Refused(request.refused, str(request.error)))
            else:
                request.done.set_exception(Undelivered(str(request.error)))
