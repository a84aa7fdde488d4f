"""A consumer that reads given partitions from given offsets, in no group, and commits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from anabranch.core.settings import Settings
from anabranch.ingest.kafka.client import ConnectionErrors, bad_options, client_config, translate_error

PATIENCE_SECONDS: Final = 10.0
"""How long the broker may stay silent."""
_FIXED: Final = {
    "group.id": "anabranch",  # a required setting: no group is joined, and no offset is committed to it
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,  # its offset is after transaction markers, a position is not
    "fetch.wait.max.ms": 50,
}


@contextmanager
def assigned(
    settings: Settings, topic: str, first: Mapping[int, int], doing: str, *, gone: Literal["error", "earliest"]
) -> Iterator[tuple[confluent_kafka.Consumer, ConnectionErrors]]:
    """A consumer of ``topic`` from the ``first`` offset of each partition, and what its connections say, for the length
    of the block. ``gone``: what comes where the log no longer holds that offset. ``doing``: named in errors. Raises
    BadInput KAFKA_OPTIONS, and errors of Kafka as ``translate_error``."""
    heard = ConnectionErrors()
    try:
        consumer = confluent_kafka.Consumer(client_config(settings, {}, {**_FIXED, "auto.offset.reset": gone}, heard))
    except (KafkaException, ValueError, TypeError) as error:
        raise bad_options(settings, error) from None
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in first.items()])
        yield consumer, heard
    except KafkaException as error:
        raise translate_error(settings, error, doing) from None
    finally:
        consumer.close()


def is_end(message: Message) -> bool:
    """Whether this says that all that can be read of a partition was read, and is no record."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF
