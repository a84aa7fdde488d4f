"""Infers a contract and a mapping from a schema in Avro or Protobuf, without a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from anabranch.contracts.fields.field_types import is_map
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.fields.text_formats import is_plain
from anabranch.contracts.model._samples import check_name
from anabranch.contracts.model.contract import FIELD_NAME, SENT_NAME
from anabranch.contracts.model.infer import is_named_id, own_name, time_rank
from anabranch.contracts.model.inferred import Inferred
from anabranch.core.errors import BadInput

_FORMATS: Final = {"avro": "Avro", "protobuf": "Protobuf"}


def infer_from_schema(name: str, schema: RegisteredSchema, origin: str, arguments: tuple[str, ...] = ()) -> Inferred:
    """Infer the contract ``name``. ``origin`` names the schema; ``arguments``: Python of the format's other arguments.

    Raises BadInput SAMPLE if the schema can't be read, or CONTRACT_NAME.
    """
    from anabranch.contracts.formats import shape_of

    check_name(name)
    try:
        shape = shape_of(schema)
    except ValueError as error:
        raise BadInput("SAMPLE", f"{origin}: {error}", next_step="give the schema of a record") from None
    left_out = list(shape.left_out)
    found = _declared(shape.node, "", left_out)
    fields = found["properties"]
    ids = [field for field, node in fields.items() if _is_plain(node, ("string", "integer"))]
    times = [field for field, node in fields.items() if node.get("format") == "date-time"]
    first_time = min(times, key=time_rank, default=None)
    return Inferred(
        name,
        found,
        tuple(left_out),
        0,
        next((field for field in ids if is_named_id(field)), None),
        None if first_time is None else f'"{first_time}"',
        _FORMATS[schema.format],
        arguments,
        origin,
    )


def _is_plain(node: Mapping[str, Any], types: tuple[str, ...]) -> bool:
    return node["type"] in types and is_plain(node)


def _declared(node: Mapping[str, Any], path: str, left_out: list[str]) -> dict[str, Any]:
    """The node with names that columns can have."""
    if node["type"] == "array":
        return {**node, "items": _declared(node["items"], f"{path}[].", left_out)}
    if is_map(node):
        return {**node, "additionalProperties": _declared(node["additionalProperties"], f"{path}*.", left_out)}
    if node["type"] != "object":
        return dict(node)
    properties: dict[str, Any] = {}
    names = {sent: own_name(sent) for sent in node["properties"]}
    for sent, child in node["properties"].items():
        own = names[sent]
        if not FIELD_NAME.fullmatch(own) or not SENT_NAME.fullmatch(sent):
            left_out.append(f"{path}{sent}: left out, no column can be named for it")
            continue
        found = _declared(child, f"{path}{sent}.", left_out)
        properties[own] = {**found, "sent_as": sent} if own != sent else found
    required = [names[sent] for sent in node.get("required", ()) if names[sent] in properties]
    return {**node, **({"required": required} if required else {}), "properties": properties}
