"""Schemas as a schema registry has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry has it. ``text``: Avro's JSON, or a FileDescriptorProto in base64. ``references``: name
    and text of the schemas that it uses, each behind those that it uses itself."""

    format: Literal["avro", "protobuf"]
    text: str
    references: tuple[tuple[str, str], ...] = ()


Schemas = Mapping[int, RegisteredSchema]
"""The known schemas of a topic, by their id in the registry."""
