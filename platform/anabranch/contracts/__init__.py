"""Contracts: the types of events, how records are read as events, and the topics that carry them.

In: the declarations of a project (Python modules in ``spark_jobs/contracts``, with JSON files for the contracts). Out:
validated ``Topic`` and ``Contract`` objects, which landing, views and producers use. In the order of use:

1. ``fields`` compares the types in schemas; ``formats`` decodes Avro and Protobuf; ``model`` validates what is
   declared, one module for each kind of object;
2. ``load_declarations`` loads all topics of a project, and each contract version is registered before its first event
   lands;
3. ``sending`` writes an event and checks it before it is sent.

This door offers what people's files and most packages need; the sub-packages offer the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.contracts.model.contract import Contract
    from anabranch.contracts.model.declarations import load_declarations
    from anabranch.contracts.model.queues import Queue
    from anabranch.contracts.model.records import (
        Avro,
        CloudEvents,
        Header,
        PlainJson,
        Protobuf,
        Raw,
        Record,
        TimeField,
        TypeField,
    )
    from anabranch.contracts.model.topics import Topic
    from anabranch.contracts.model.upcasters import Upcaster
    from anabranch.contracts.sending import Event
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "model.contract": ("Contract",),
            "model.declarations": ("load_declarations",),
            "model.queues": ("Queue",),
            "model.records": (
                "Avro",
                "CloudEvents",
                "Header",
                "PlainJson",
                "Protobuf",
                "Raw",
                "Record",
                "TimeField",
                "TypeField",
            ),
            "model.topics": ("Topic",),
            "model.upcasters": ("Upcaster",),
            "sending": ("Event",),
        },
    )

__all__ = [
    "Avro",
    "CloudEvents",
    "Contract",
    "Event",
    "Header",
    "PlainJson",
    "Protobuf",
    "Queue",
    "Raw",
    "Record",
    "TimeField",
    "Topic",
    "TypeField",
    "Upcaster",
    "load_declarations",
]
