"""Takes the messages of one queue: into the log first, then acknowledged. One thread for each queue.

Batch by batch: what has arrived while the broker answered is the next batch. A message is acknowledged once it is in
the log; only what the broker refuses for good (its size, its topic's rules) is rejected, without a return to the queue.
Whatever fails, RabbitMQ keeps every message that isn't acknowledged, and delivers it again: then it may be in the log
twice, with one id.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import confluent_kafka
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)
from pika.spec import Basic, BasicProperties

from anabranch.contracts import Queue, Topic
from anabranch.core.errors import AnabranchError
from anabranch.core.part_report import Source
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.batches import Batch, RawRecord, size_of
from anabranch.ingest.kafka.client import client_failed, is_fatal
from anabranch.ingest.kafka.producer import RECORD_OVERHEAD
from anabranch.ingest.queues._connection import connect
from anabranch.ingest.queues._messages import Messages

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Between tries to reach RabbitMQ; a broker that takes nothing is tried again after the first."""
SLOW_SECONDS = 2.0
"""A broker that hasn't answered for this long is waited for."""
LAST_SECONDS = 10.0
"""How long a part that ends waits for the answers to what it has given to the broker."""
_WAIT, _POLL = 0.5, 0.01
_UNDECODED: Final = re.compile(r": (ValueError|OverflowError|RecursionError|error)\(|: InvalidFieldTypeException")
"""pika takes what it can't decode for a lost connection: a time header in milliseconds is one of the year 59,000."""
TAKEN: Final = "in the log"
AGAIN: Final = "of them delivered again"


class _Delivery(NamedTuple):
    tag: int
    record: RawRecord


class Taker(threading.Thread):
    """Takes one queue until ``stop`` is set. Its process must end when it does: then something unforeseen has happened.

    ``looked``: when it was last seen to be alive, by the monotonic clock.
    """

    def __init__(
        self, settings: Settings, queue: Queue, topic: Topic, client: confluent_kafka.Producer, source: Source,
        stop: threading.Event,
    ) -> None:  # fmt: skip
        super().__init__(name=f"queue {queue.name}", daemon=True)
        self._settings, self._queue, self._topic, self._client = settings, queue, topic, client
        self._messages, self._source, self._stop_all = Messages(queue, topic), source, stop
        self._limit = topic.max_message_bytes - RECORD_OVERHEAD
        self._arrived: list[_Delivery] = []
        self.looked = time.monotonic()

    def run(self) -> None:
        try:
            self._run()
        except Exception:
            log.critical("queue %s: nothing is taken from it any more", self._queue.name, exc_info=True)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stop_all.is_set():
            self.looked = began = time.monotonic()
            try:
                connection = connect(self._settings, f"anabranch {self._queue.name}")
                try:
                    self._take(connection)
                finally:
                    if connection.is_open:
                        connection.close()  # RabbitMQ takes back what isn't acknowledged
            except (AMQPError, ConsumerGone, OSError, AnabranchError) as error:
                self._wait_for(reason_of(self._settings, self._queue, error))
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else pause
            self._stop_all.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _take(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        channel.queue_declare(self._queue.name, passive=True)
        channel.basic_qos(prefetch_count=self._queue.prefetch)
        self._arrived = []
        channel.basic_consume(self._queue.name, self._arrive)
        self._wait_for("")
        while not self._stop_all.is_set():
            self.looked = time.monotonic()
            connection.process_data_events(time_limit=_WAIT)
            if self._arrived:
                taken, self._arrived = self._arrived, []
                self._into_log(connection, channel, taken)
            if not channel.consumer_tags:
                raise ConsumerGone

    def _arrive(self, _: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        record = self._messages.record(delivery, properties, body)
        if delivery.redelivered:
            self._source.count(AGAIN)
        self._arrived.append(_Delivery(delivery.delivery_tag, record))

    def _into_log(
        self, connection: pika.BlockingConnection, channel: BlockingChannel, taken: Sequence[_Delivery]
    ) -> None:
        """Until each message of the batch is in the log and acknowledged, or rejected."""
        sizes = [size_of(*each.record) for each in taken]
        refused = {
            number: f"larger than the {self._limit:,} bytes that {self._topic.name} takes"
            for number, size in enumerate(sizes)
            if size > self._limit
        }
        numbers = [number for number in range(len(taken)) if number not in refused]
        batch = Batch(self._client, self._topic.in_kafka, [taken[number].record for number in numbers])
        if not self._deliver(connection, batch):
            return
        refused |= {numbers[number]: why for number, why in batch.refused.items()}
        for number, reason in refused.items():
            log.warning("queue %s: a message of %d bytes is rejected: %s", self._queue.name, sizes[number], reason)
            channel.basic_reject(taken[number].tag, requeue=False)
            self._source.refuse(reason)
        kept = [each.tag for number, each in enumerate(taken) if number not in refused]
        if kept:
            channel.basic_ack(kept[-1], multiple=True)
            self._source.count(TAKEN, len(kept))
        connection.process_data_events(0)  # sends it

    def _deliver(self, connection: pika.BlockingConnection, batch: Batch) -> bool:
        """Whether all of it is in the log. False if the part ends before."""
        until = float("inf")
        while not batch.done:
            batch.send()
            sent = time.monotonic()
            while not batch.answered:
                self.looked = time.monotonic()
                if self.looked - sent > SLOW_SECONDS:
                    self._wait_for("Kafka doesn't confirm records")
                if self._stop_all.is_set():
                    until = min(until, self.looked + LAST_SECONDS)
                    if self.looked > until:
                        return False
                self._client.poll(_POLL)
                connection.process_data_events(0)  # heartbeats; what arrives is the next batch
            error = batch.settle()
            if error and is_fatal(error):
                raise ClientFailed(client_failed(self._settings, error))
            self.looked = time.monotonic()  # the client may have refused all of it at once
            self._client.poll(0)
            connection.process_data_events(0)
            self._wait_for(f"Kafka doesn't take records: {error}" if error else "")
            if error and self._stop_all.wait(FIRST_PAUSE):
                return False
        return True

    def _wait_for(self, what: str) -> None:
        if what and what != self._source.waits_for:
            log.warning("queue %s: %s", self._queue.name, what)
        self._source.waits_for = what


class ClientFailed(Exception):
    """The client of Kafka can't go on: the process has to end, and RabbitMQ delivers again what isn't acknowledged."""


class ConsumerGone(Exception):
    """RabbitMQ has ended the consumer: the queue was deleted, or its node has left."""


def reason_of(settings: Settings, queue: Queue, error: Exception) -> str:
    """Why nothing is taken from a queue, in words."""
    where = settings.amqp_url.rpartition("@")[2].removeprefix("amqp://").removeprefix("amqps://")
    if isinstance(error, AnabranchError):
        return f"{error.what} [{error.code}]"
    if isinstance(error, ConsumerGone):
        return f"RabbitMQ has ended the consumer: the queue {queue.name} may be deleted"
    if isinstance(error, ChannelClosedByBroker):
        return f"RabbitMQ says: {error.reply_text}"
    if isinstance(error, ProbableAuthenticationError | ProbableAccessDeniedError):
        return f"RabbitMQ at {where} refuses the login: check ANABRANCH_AMQP_URL and the password"
    if isinstance(error, StreamLostError) and _UNDECODED.search(str(error)):
        return f"a message can't be decoded, and is delivered again and again: remove it ({error})"
    if isinstance(error, AMQPConnectionError | OSError):
        return f"RabbitMQ at {where} can't be reached, or has ended the connection: {error or type(error).__name__}"
    return f"{type(error).__name__}: {error}"
