"""Takes packets of StatsD, and gives an event for each sample to the broker.

A sample has its id from here on: a record that is sent again, because the broker didn't confirm it, is the same event.
UDP has no answer, so what can't be kept is counted: packets that the kernel dropped because this process was too slow,
and samples that came while too many waited for the broker. A kill loses those that waited.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from anabranch.contracts.model.metrics import METRIC
from anabranch.contracts.sending import rfc3339
from anabranch.core.errors import TryAgain
from anabranch.core.part_report import Source
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.batches import TOO_LARGE, RawRecord
from anabranch.ingest.kafka.client import client_failed, is_fatal
from anabranch.ingest.statsd._lines import Malformed, Sample, read

log = logging.getLogger(__name__)
MOST_WAITING: Final = 100_000
"""Samples that may wait for the broker."""
MOST_BYTES: Final = 64 * 2**20
"""Of their events: one packet can hold 16,000 values with tags of 33 kB, which each of their events has."""
BUFFER_BYTES: Final = 8 * 2**20
"""Of the kernel, for packets that haven't been taken yet; it gives as much as net.core.rmem_max allows."""
SLOW_SECONDS: Final = 2.0
"""A broker that hasn't answered for this long is waited for."""
LAST_SECONDS: Final = 10.0
SOURCE: Final = "/statsd"
"""Of all events; ids are different in each process."""
DROPPED: Final = "packets dropped by the kernel"
_WAIT, _BURST, _LARGEST = 0.05, 500, 65_536
_AGAIN_SECONDS: Final = 0.5


class Receiver:
    """Used by one thread. ``source`` counts what it does; ``report`` is called every second. ``in_kafka``: the name of
    the topic there, if it isn't that of the settings."""

    def __init__(
        self, settings: Settings, client: confluent_kafka.Producer, source: Source, report: Callable[[], None],
        in_kafka: str = "",
    ) -> None:  # fmt: skip
        self._topic = in_kafka or settings.statsd_topic
        self._settings, self._client, self._source, self._report = settings, client, source, report
        self._run, self._number = uuid4().hex, 0
        self._waiting, self._failed, self._send_again = 0, deque[RawRecord](), 0.0
        self._bytes = 0  # of what waits and what has failed
        self._allowed = lru_cache(10_000)(self._is_allowed)
        self._dropped, self._heard = 0, 0.0
        self._fatal: KafkaError | None = None

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set; then what waits is delivered, for some seconds. Raises TryAgain STATSD_ADDRESS for an
        address that can't be listened on, CLIENT_FAILED if the client of Kafka can't go on."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            taken.setblocking(False)
            self._listen(taken)
            next_report = 0.0
            while not stop.is_set() and self._fatal is None:
                if (now := time.monotonic()) >= next_report:
                    next_report = now + 1
                    self._say()
                self._take(taken)
                self._deliver()
        until = time.monotonic() + LAST_SECONDS
        while (self._waiting or self._failed) and time.monotonic() < until and self._fatal is None:
            self._deliver(_WAIT)
        self._lose("the part ended before the broker had them", self._waiting + len(self._failed))
        self._report()
        if self._fatal is not None:
            raise client_failed(self._settings, self._fatal)

    def _listen(self, taken: socket.socket) -> None:
        host, port = self._settings.statsd_host, self._settings.statsd_port
        try:
            taken.bind((host, port))
        except OSError as error:
            raise TryAgain(
                "STATSD_ADDRESS",
                f"StatsD can't listen on {host}:{port}: {error.strerror or error}",
                state="no packet is taken",
                next_step="end the process that has the port, or set ANABRANCH_STATSD_PORT and _HOST",
                port=port,
            ) from None

    def _take(self, taken: socket.socket) -> None:
        """A burst of packets; waits for the first one, as briefly as answers of the broker may wait."""
        select.select([taken], [], [], _WAIT)
        for _ in range(_BURST):
            try:
                packet, (host, _port) = taken.recvfrom(_LARGEST)
            except BlockingIOError:
                return
            if not self._allowed(host):
                self._source.refuse("a sender that ANABRANCH_STATSD_NETWORKS doesn't name")
                continue
            for found in read(packet):
                if isinstance(found, Malformed):
                    self._source.refuse(str(found))
                else:
                    self._send(self._record(found))

    def _record(self, sample: Sample) -> RawRecord:
        self._number += 1
        at = datetime.now(UTC) if sample.seconds is None else datetime.fromtimestamp(sample.seconds, UTC)
        name = sample.data["name"]
        event = {
            "specversion": "1.0", "id": f"{self._run}-{self._number}", "source": SOURCE,
            "type": METRIC.name, "subject": name, "time": rfc3339(at), "data": sample.data,
        }  # fmt: skip
        return RawRecord(name.encode(), json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode())

    def _send(self, record: RawRecord) -> None:
        if self._waiting + len(self._failed) >= MOST_WAITING or self._bytes + len(record.value) > MOST_BYTES:
            self._lose("too many waited for the broker")
            return
        try:
            answered = partial(self._answered, record)
            self._client.produce(self._topic, record.value, record.key, on_delivery=answered)
            self._heard = self._heard if self._waiting else time.monotonic()
            self._waiting += 1
            self._bytes += len(record.value)
        except BufferError:
            self._failed.append(record)
            self._bytes += len(record.value)
        except KafkaException as error:  # before anything was sent: the topic may be missing for a while
            self._keep_or_lose(record, error.args[0])

    def _answered(self, record: RawRecord, error: KafkaError | None, _: Message) -> None:
        self._waiting, self._heard = self._waiting - 1, time.monotonic()
        self._bytes -= len(record.value)
        if error is None:
            self._source.count("in the log")
            self._source.waits_for = ""
            return
        self._keep_or_lose(record, error)

    def _keep_or_lose(self, record: RawRecord, error: KafkaError) -> None:
        if error.code() in TOO_LARGE:
            self._lose(f"too large for the broker: {error}")
            return
        if is_fatal(error):
            self._fatal = error
        if not self._source.waits_for:
            log.warning("the broker doesn't take events: %s", error)
        self._source.waits_for = f"Kafka doesn't take records: {error}"
        self._failed.append(record)
        self._bytes += len(record.value)

    def _deliver(self, seconds: float = 0.0) -> None:
        self._client.poll(seconds)
        if self._failed and time.monotonic() >= self._send_again:
            self._send_again = time.monotonic() + _AGAIN_SECONDS
            again, self._failed = self._failed, deque()
            self._bytes -= sum(len(record.value) for record in again)
            for record in again:
                self._send(record)

    def _lose(self, why: str, number: int = 1) -> None:
        if number:
            self._source.refuse(why, number)

    def _say(self) -> None:
        if self._waiting and time.monotonic() - self._heard > SLOW_SECONDS:
            self._source.waits_for = self._source.waits_for or "Kafka doesn't confirm records"
        dropped = kernel_drops(self._settings.statsd_port)
        if dropped > self._dropped:
            self._source.count(DROPPED, dropped - self._dropped)
            self._dropped = dropped
        self._report()

    def _is_allowed(self, host: str) -> bool:
        networks = self._settings.statsd_networks
        return not networks or any(ipaddress.IPv4Address(host) in network for network in networks)


def kernel_drops(port: int, table: Path = Path("/proc/net/udp")) -> int:
    """Packets that the kernel has dropped at sockets of this port; 0 where it doesn't say."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return 0
    return sum(int(row[-1]) for row in rows if row[1].endswith(f":{port:04X}"))
