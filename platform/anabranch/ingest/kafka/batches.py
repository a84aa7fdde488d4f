"""Batches of records that are given to the broker, and known to be in the log one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from anabranch.contracts.model.records import Headers

TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
INVALID: Final = KafkaError.INVALID_RECORD
"""The topic's rules refuse the record for good: a compacted one takes none without a key."""
_FOR_ANOTHER: Final = KafkaError._INVALID_DIFFERENT_RECORD
"""The record was in one set with an invalid one."""


class RawRecord(NamedTuple):
    """A record as it will be in the log."""

    key: bytes | None
    value: bytes
    headers: Headers = None


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of a record, without what the broker's format adds."""
    size = len(key or b"") + len(value or b"")
    return size + sum(len(name.encode()) + len(text or b"") for name, text in headers or ())


class Batch:
    """The records of one batch, until each is in the log, or refused for good. Used by one thread; the answers may come
    in any thread that polls the client.

    A record whose delivery failed may be in the log all the same: sent again, it is there twice.
    """

    def __init__(self, client: confluent_kafka.Producer, topic: str, records: Sequence[RawRecord]) -> None:
        self._client, self._topic, self._records = client, topic, records
        self._open = list(range(len(records)))  # neither in the log nor refused, in their order
        self._sent: list[int] = []
        self._answers: dict[int, KafkaError | None] = {}
        self._alone = False
        self.refused: dict[int, str] = {}
        """Records that the broker will never take, by their number, and why."""

    def send(self) -> None:
        """Give the broker what is open. Call it again after ``settle`` has named an error."""
        self._sent, self._answers = self._open[:1] if self._alone else list(self._open), {}
        for number in self._sent:
            record, answered = self._records[number], partial(self._answered, number)
            try:
                self._client.produce(
                    self._topic, record.value, record.key, headers=list(record.headers or ()), on_delivery=answered
                )
            except BufferError:
                self._answers[number] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as error:
                self._answers[number] = error.args[0]

    @property
    def answered(self) -> bool:
        """Whether there is an answer for each record that was sent."""
        return len(self._answers) == len(self._sent)

    def settle(self) -> KafkaError | None:
        """Take in the answers, all of which are there. Returns why some records aren't in the log yet; None if it is
        to be sent on at once, or is done."""
        failed = {number: error for number, error in self._answers.items() if error is not None}
        final = {number: why for number, error in failed.items() if (why := _final(error))}
        # The broker refuses a set as a whole: for one record of it, or because together they would be too large.
        together = final.keys() | {number for number, error in failed.items() if error.code() == _FOR_ANOTHER}
        if self._alone or len(self._sent) == 1:
            # What others send at the same time may be in its set all the same: they can't make it too large
            # (``batch.size``), and an invalid one of theirs is answered as _FOR_ANOTHER.
            self.refused |= final
        self._alone = self._alone or bool(together)
        done = (set(self._sent) - failed.keys()) | self.refused.keys()
        self._open = [number for number in self._open if number not in done]
        return next((error for number, error in failed.items() if number not in together), None)

    @property
    def done(self) -> bool:
        return not self._open

    def _answered(self, number: int, error: KafkaError | None, _: Message) -> None:
        self._answers[number] = error


def _final(error: KafkaError) -> str:
    """Why the broker will never take a record; empty if it may."""
    if error.code() in TOO_LARGE:
        return f"too large for the broker: {error}"
    return f"against the rules of its topic: {error}" if error.code() == INVALID else ""
