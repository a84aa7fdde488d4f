"""Holds the decoded records of a topic to its contracts before they are sent, with or without an envelope.

As strict as landing about shapes. A record that passes may still be quarantined for its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from anabranch.contracts.contract import Contract
from anabranch.contracts.records import PlainJson, sent_value
from anabranch.contracts.topics import Topic
from anabranch.contracts.validation import data_schema, decimal_problem, envelope_schema, shape_problem


class RecordCheck:
    """The compiled contracts of a topic. Construction takes milliseconds, a check microseconds."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._plain = topic.records if isinstance(topic.records, PlainJson) else None
        # The newest version first: its complaint is what a client should hear.
        self._compiled = [(each, _compiled(each, self._plain)) for each in reversed(topic.contracts)]

    def problem(self, value: bytes, content: Mapping[str, Any]) -> tuple[str, str] | None:
        """The field that is wrong, as a path, and why; None if nothing is. ``content``: the decoded ``value``."""
        found = [each for each in self._compiled if self._may_be(each[0], content)]
        if not found:
            return ("type" if self._plain is None else self._type_path), self._unknown(content)
        problems = [self._problem(contract, validator, value, content) for contract, validator in found]
        return None if None in problems else problems[0]

    def _problem(
        self, contract: Contract, validator: jsonschema_rs.Draft4Validator, value: bytes, content: Mapping[str, Any]
    ) -> tuple[str, str] | None:
        if (wrong := shape_problem(validator, content)) is not None:
            return wrong[0] or "record", wrong[1]
        return decimal_problem(contract, value, envelope=self._plain is None)

    def _may_be(self, contract: Contract, content: Mapping[str, Any]) -> bool:
        if self._plain is None:
            return content.get("type") == contract.name and content.get("dataschema") in (None, contract.uri)
        if self._plain.type is None:
            return True
        value = self._value_of_type(content)
        return isinstance(value, str) and self._plain.type.names.get(value, value) == contract.name

    @property
    def _type_path(self) -> str:
        return self._plain.type.path if self._plain is not None and self._plain.type is not None else "type"

    def _value_of_type(self, content: Mapping[str, Any]) -> Any:
        return sent_value(self._topic.contracts[0], self._type_path, content)

    def _unknown(self, content: Mapping[str, Any]) -> str:
        given = content.get("type") if self._plain is None else self._value_of_type(content)
        schema = f" with dataschema {content.get('dataschema')!r}" if self._plain is None else ""
        return f"{given!r}{schema} is none of topic {self._topic.name} ({', '.join(self._topic.event_types)})"


def _compiled(contract: Contract, plain: PlainJson | None) -> jsonschema_rs.Draft4Validator:
    if plain is not None:
        return jsonschema_rs.Draft4Validator(data_schema(contract), validate_formats=True)
    schema = envelope_schema(contract)
    schema["required"] = [name for name in schema["required"] if name != "subject"]  # landing doesn't need one
    return jsonschema_rs.Draft4Validator(schema, validate_formats=True)
