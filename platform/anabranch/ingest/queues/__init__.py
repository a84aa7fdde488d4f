"""Events from queues of RabbitMQ (AMQP 0-9-1): messages in, records of the log out, acknowledged after the broker.

In: the messages of each declared ``contracts.Queue``. Out: their bodies as records of its topic, unchanged, with some
headers. Landing decides what they are, and finds redelivered ones by their ids.

``__main__`` runs a thread for each queue (``_taking``), which makes a record of a message (``_messages``), gives it to
the broker and acknowledges it. ``_connection`` says how RabbitMQ is reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = []
