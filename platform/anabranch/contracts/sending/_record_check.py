"""Holds the decoded records of a topic to its contracts before they are sent, with or without an envelope.

As strict as landing about shapes, and about what makes the envelope of a record without one. A record that passes may
still be quarantined for its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from anabranch.contracts.model.contract import Contract, sent_path
from anabranch.contracts.model.records import (
    CloudEvents,
    Header,
    Headers,
    PlainJson,
    Record,
    holds_json,
    is_field,
    last_header,
    sent_value,
)
from anabranch.contracts.model.topics import Topic
from anabranch.contracts.sending._validation import compiled, data_schema, envelope_schema, shape_problem, text_problem
from anabranch.core.errors import BadInput


class RecordCheck:
    """The compiled contracts of a topic. Construction takes milliseconds, a check microseconds. Raises BadInput
    RECORDS_NOT_JSON for a topic in another format."""

    def __init__(self, topic: Topic) -> None:
        if not holds_json(topic.records):
            raise BadInput(
                "RECORDS_NOT_JSON",
                f"records of {topic.name} are {type(topic.records).__name__}, and only JSON is sent from here",
                state="nothing was sent",
                next_step="send them with their producer's serializer; landing reads them",
                topic=topic.name,
            )
        self._topic = topic
        self._plain = topic.records if isinstance(topic.records, PlainJson) else None
        self._events = topic.records if isinstance(topic.records, CloudEvents) else CloudEvents()
        self._compiled = [(each, self._validator(each)) for each in self._contracts()]

    def _contracts(self) -> list[Contract]:
        """Those that landing reads records by. A record without an envelope names no version: the newest of each type.
        Of events the newest version comes first: its complaint is what a client should hear."""
        types = self._topic.event_types
        if self._plain is not None:
            return [self._topic.newest(event_type) for event_type in types]
        return [each for event_type in types for each in reversed(self._topic.versions(event_type))]

    def problem(
        self, value: bytes, content: Mapping[str, Any], headers: Headers = None, *, keyed: bool = True
    ) -> tuple[str, str] | None:
        """The field that is wrong, as a path, and why; None if nothing is. ``content``: the decoded ``value``;
        ``keyed``: whether the record has a key."""
        for part in self._plain.needed_parts if self._plain is not None else ():
            if part is Record.KEY and not keyed:
                return "key", "is missing, and it is the record's id"
            if isinstance(part, Header) and not last_header(headers, part.name):
                return f"header {part.name}", "is missing"
        given = content.get("type") if self._plain is None else self._mapped_type(content, headers)
        found = [each for each in self._compiled if self._may_be(each[0], given, content)]
        if not found:
            return self._type_path, self._unknown(given, content)
        if self._plain is None and "data" not in content and "data_base64" in content:
            return "data_base64", "isn't read: the data of an event is a JSON object, in data"
        problems = [self._problem(contract, validator, value, content) for contract, validator in found]
        return self._mapping_problem(content, headers) if None in problems else problems[0]

    def _mapping_problem(self, content: Mapping[str, Any], headers: Headers) -> tuple[str, str] | None:
        """What keeps a record from having an id, or a subject, though its contract allows it."""
        if self._plain is None:
            return None
        any_of_them = self._topic.contracts[0]
        for part in self._plain.id_fields:
            value = sent_value(any_of_them, part, content)
            if value is None or (value == "" and len(self._plain.id_parts) == 1):
                lack = "missing" if value is None else "empty"
                return ".".join(sent_path(any_of_them.schema, part)), f"is {lack}, and it is the record's id"
        subject = self._plain.subject
        if isinstance(subject, Header) and last_header(headers, subject.name) == "":
            return f"header {subject.name}", "is empty, and it is the record's subject"
        if is_field(subject) and sent_value(any_of_them, str(subject), content) == "":
            return ".".join(sent_path(any_of_them.schema, str(subject))), "is empty, and it is the record's subject"
        return None

    def _problem(
        self, contract: Contract, validator: jsonschema_rs.Draft4Validator, value: bytes, content: Mapping[str, Any]
    ) -> tuple[str, str] | None:
        if (wrong := shape_problem(validator, content)) is not None:
            return wrong[0] or "record", wrong[1]
        return text_problem(contract, value, envelope=self._plain is None)

    def _validator(self, contract: Contract) -> jsonschema_rs.Draft4Validator:
        if self._plain is not None:
            return compiled(data_schema(contract))
        schema, events = envelope_schema(contract), self._events
        named = schema["properties"]
        named["type"] = {"enum": events.sent_types(contract.name)}
        if events.schemas == "any":
            named["dataschema"] = {"type": ["string", "null"]}  # which of them is ours was looked at before
        else:
            named["dataschema"] = {"enum": [contract.uri, *events.sent_schemas(contract.version), None]}
        named["specversion"] = {"type": "string", "pattern": r"^1\."}
        named["subject"] = {**named["subject"], "type": ["string", "null"]}
        optional = {"subject", "dataschema"}  # landing doesn't need them
        if events.time is not None:
            optional.add("time")
            named["time"] = named["senttime"]
        schema["required"] = [name for name in schema["required"] if name not in optional]
        return compiled(schema)

    def _may_be(self, contract: Contract, given: Any, content: Mapping[str, Any]) -> bool:
        if self._plain is None:
            if not isinstance(given, str) or self._events.types.get(given, given) != contract.name:
                return False
            newest = contract == self._topic.newest(contract.name)
            return self._events.names(content.get("dataschema"), contract, newest=newest)
        if self._plain.type is None:
            return True
        return isinstance(given, str) and self._plain.type.names.get(given, given) == contract.name

    @property
    def _type_path(self) -> str:
        if self._plain is None or self._plain.type is None:
            return "type"
        path = self._plain.type.path
        return f"header {path.name}" if isinstance(path, Header) else path

    def _mapped_type(self, content: Mapping[str, Any], headers: Headers) -> Any:
        if self._plain is None or self._plain.type is None:
            return None
        path = self._plain.type.path
        if isinstance(path, Header):
            return last_header(headers, path.name)
        return sent_value(self._topic.contracts[0], path, content)

    def _unknown(self, given: Any, content: Mapping[str, Any]) -> str:
        schema = f" with dataschema {content.get('dataschema')!r}" if self._plain is None else ""
        return f"{given!r}{schema} is none of topic {self._topic.name} ({', '.join(self._topic.event_types)})"
