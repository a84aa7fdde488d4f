"""The schemas of a topic that are known: kept in the home, and asked for once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from anabranch.contracts import Avro, Protobuf, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import Undecodable, wire_format
from anabranch.core.control_file import ControlFile
from anabranch.core.errors import AnabranchError, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.schema_registry._registry import Registry
from anabranch.lake.layout import topic_schemas

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """A schema as it is kept. ``taken_in``: when, in UTC."""

    format: Literal["avro", "protobuf"]
    text: str
    taken_in: datetime
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class KeptSchemas:
    """All that are known of a topic, by their id."""

    schemas: Mapping[int, KeptSchema] = field(default_factory=dict)


SCHEMAS: Final = ControlFile("known schemas", KeptSchemas)


def kept_schemas(settings: Settings, topic: str) -> dict[int, KeptSchema]:
    """The schemas of a topic that are known, by their id. Raises OSError, ValueError, BrokenState FORMAT_NEWER."""
    found = SCHEMAS.current(topic_schemas(settings, topic))
    return {} if found is None else dict(sorted(found.schemas.items()))


def with_schemas(settings: Settings, topic: Topic) -> Topic:
    """The topic with the schemas that are known; the same one if its format needs none."""
    return _filled(topic, lambda: _known(settings, topic))


def with_schemas_of(settings: Settings, topic: Topic, values: Iterable[bytes | None]) -> Topic:
    """The topic with the schemas that are known and those that ``values`` name; nothing is kept. Raises what
    ``Registry`` raises."""

    def find() -> Mapping[int, RegisteredSchema]:
        known, registry = _known(settings, topic), Registry(settings)
        for number in sorted(set(_ids(values)) - known.keys()):
            if (found := registry.schema(number, protobuf=isinstance(topic.records, Protobuf))) is not None:
                known[number] = found
        return known

    return _filled(topic, find)


def _ids(values: Iterable[bytes | None]) -> Iterator[int]:
    for value in values:
        with suppress(Undecodable):
            yield wire_format.schema_id(value or b"")


def asking_registry(settings: Settings, topic: Topic) -> Topic:
    """The topic with the schemas that are known, for a process that may take in new ones. Before the first is known the
    newest of the subject is asked for; from then on the registry is asked only for ids that records name.

    The reader of a record's reason asks (in this process: copies of the schemas in others don't). What the registry has
    is kept, with the newest of the subject, and TryAgain SCHEMA_TAKEN_IN raised: the record has to be read again. What
    it doesn't have stays unknown. Raises what ``Registry`` raises.
    """

    def ask() -> AskingSchemas:
        found = AskingSchemas(settings, topic)
        if not found and settings.schema_registry_url:
            try:
                found.take_newest()
            except AnabranchError as error:  # a record will need it, or none
                LOGGER.warning("the newest schema of %s isn't known: %s", topic.name, error)
        return found

    return _filled(topic, ask)


class AskingSchemas(dict[int, RegisteredSchema]):
    """The known schemas of a topic, which asks for those that are missing. A pickled copy is a plain dictionary."""

    def __init__(self, settings: Settings, topic: Topic) -> None:
        super().__init__(_known(settings, topic))
        self._settings, self._topic, self._registry = settings, topic, Registry(settings)
        self._protobuf = isinstance(topic.records, Protobuf)

    def get(self, schema_id: int, default: Any = None) -> Any:
        if schema_id in self:
            return self[schema_id]
        found = self._registry.schema(schema_id, protobuf=self._protobuf)
        if found is None:
            return default
        keep_schema(self._settings, self._topic, schema_id, found)
        self.take_newest()
        raise TryAgain(
            "SCHEMA_TAKEN_IN",
            f"{self._topic.name}: records name schema id {schema_id}, which is new",
            state="the schema is known now; nothing of this micro-batch was written",
            next_step="nothing: the records are read again",
            topic=self._topic.name,
            id=schema_id,
        )

    def take_newest(self) -> None:
        """Keep the newest schema of the topic's subject, if there is one. Raises what ``Registry`` raises."""
        newest = self._registry.newest(f"{self._topic.in_kafka}-value", protobuf=self._protobuf)
        if newest is not None and newest[0] not in self:
            keep_schema(self._settings, self._topic, *newest)
            self[newest[0]] = newest[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _filled(topic: Topic, schemas: Callable[[], Mapping[int, RegisteredSchema]]) -> Topic:
    records = topic.records
    if not isinstance(records, Avro | Protobuf) or not records.from_registry:
        return topic
    return replace(topic, records=replace(records, schemas=schemas()))


def _known(settings: Settings, topic: Topic) -> dict[int, RegisteredSchema]:
    kept = kept_schemas(settings, topic.name)
    return {n: RegisteredSchema(each.format, each.text, each.references) for n, each in kept.items()}


def keep_schema(settings: Settings, topic: Topic, schema_id: int, schema: RegisteredSchema) -> None:
    """Keep the schema of an id. An id stands for one schema for ever, so the first one that was kept stays."""
    new = KeptSchema(schema.format, schema.text, datetime.now(UTC), schema.references)

    def added(known: KeptSchemas | None) -> KeptSchemas:
        return KeptSchemas({schema_id: new, **({} if known is None else known.schemas)})

    SCHEMAS.change(topic_schemas(settings, topic.name), added)
    LOGGER.info("%s: schema id %d is taken in", topic.name, schema_id)
