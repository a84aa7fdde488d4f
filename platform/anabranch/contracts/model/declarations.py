"""Loads what a team declares: its topics, with their contracts, and the queues that fill them, from the Python modules
of a folder."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from anabranch.contracts.model.queues import Queue, check_queues
from anabranch.contracts.model.topics import Topic
from anabranch.core.errors import BadDefinition, BadInput


@dataclass(frozen=True, slots=True)
class Declarations:
    """The topics of one project, by name. Each event type belongs to exactly one topic. ``queues``: of RabbitMQ, whose
    messages become records of these topics."""

    topics: Mapping[str, Topic] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            found = self.find(name)
            raise BadInput(
                "TOPIC_UNKNOWN",
                f"no topic {name!r} is declared",
                next_step=f"write {found.name}: it is called {name} in Kafka only"
                if found is not None
                else f"declared topics: {', '.join(sorted(self.topics)) or 'none'}",
            )
        return self.topics[name]

    def find(self, name: str) -> Topic | None:
        """The topic that is declared by this name; else the one that has it in Kafka."""
        return self.topics.get(name) or next((t for t in self.topics.values() if t.in_kafka == name), None)

    def topic_of(self, event_type: str) -> Topic:
        for topic in self.topics.values():
            if event_type in topic.event_types:
                return topic
        known = sorted(t for topic in self.topics.values() for t in topic.event_types)
        raise BadInput("EVENT_TYPE_UNKNOWN", f"no topic carries {event_type!r}", next_step=f"known: {', '.join(known)}")


def load_module(path: Path, *, reload: bool = False) -> ModuleType:
    """Import a module of declarations by its path, once per process unless ``reload`` is set."""
    name = f"anabranch_declared_{path.parent.name}_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and not reload and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadDefinition(
            "DECLARATION_UNREADABLE",
            f"{path} can't be imported",
            next_step="check that it is a Python file that this user may read",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if known is not None:
            sys.modules[name] = known
        raise
    return module


def find_topic(folder: Path, name: str) -> Topic | None:
    """As ``Declarations.find``, for what takes topics that aren't declared, too: None also where the declarations can't
    be loaded now."""
    try:
        return load_declarations(folder).find(name)
    except Exception:  # anything: a person may be editing a file
        return None


def load_declarations(folder: Path, *, reload: bool = False, beside: Iterable[Topic] = ()) -> Declarations:
    """Every Topic and Queue in a global name of a module in ``folder`` (``spark_jobs/contracts``). ``reload``: reads
    the files again, even if this process has already read them. ``beside``: topics of other files, which carry their
    event types already."""
    topics: dict[str, Topic] = {}
    queues: dict[int, Queue] = {}
    carriers = {event_type: topic.name for topic in beside for event_type in topic.event_types}
    in_kafka = {topic.in_kafka: topic.name for topic in beside}
    for path in sorted(folder.glob("[a-z]*.py")):
        for value in vars(load_module(path, reload=reload)).values():
            if isinstance(value, Queue):
                queues[id(value)] = value  # a name that another file imports is no second queue
            if not isinstance(value, Topic) or topics.get(value.name) is value:
                continue
            if value.name in topics:
                raise BadDefinition(
                    "TOPIC_TWICE", f"{path}: topic {value.name} is declared twice", next_step="declare it in one file"
                )
            if (other := in_kafka.setdefault(value.in_kafka, value.name)) != value.name:
                raise BadDefinition(
                    "TOPIC_TWICE",
                    f"{path}: {value.name} and {other} are both the topic {value.in_kafka} of Kafka",
                    next_step="declare it once: one topic can have several event types (TypeField)",
                )
            for event_type in value.event_types:
                if event_type in carriers:
                    raise BadDefinition(
                        "EVENT_TYPE_TWICE",
                        f"{path}: {event_type} is already carried by topic {carriers[event_type]}",
                        next_step="an event type belongs to one topic: give one of them another name",
                    )
                carriers[event_type] = value.name
            topics[value.name] = value
    check_queues(queues.values(), topics)
    return Declarations(topics, tuple(queues.values()))
