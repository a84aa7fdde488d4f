"""Infers a contract and a mapping from a schema in Avro or Protobuf, without a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.fields.text_formats import is_plain
from anabranch.contracts.model._samples import check_name
from anabranch.contracts.model.contract import FIELD_NAME, SENT_NAME
from anabranch.contracts.model.infer import NO_FIELDS, is_named_id, own_name, time_rank
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
    if found is None:
        raise BadInput("SAMPLE", f"{origin}: it has no field that a column can hold", next_step=NO_FIELDS)
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


def _declared(node: Mapping[str, Any], path: str, left_out: list[str]) -> dict[str, Any] | None:
    """The node with names that columns can have; None if it is an object without any."""
    for inner, at in (("items", f"{path}[]"), ("additionalProperties", f"{path}.*")):
        if inner in node:
            found = _declared(node[inner], at, left_out)
            return None if found is None else {**node, inner: found}
    if node["type"] != "object":
        return dict(node)
    properties: dict[str, Any] = {}
    names = {sent: own_name(sent) for sent in node["properties"]}
    folded = [own.lower() for own in names.values()]
    for sent, child in node["properties"].items():
        own, at = names[sent], f"{path}.{sent}".lstrip(".")
        if not FIELD_NAME.fullmatch(own) or not SENT_NAME.fullmatch(sent):
            left_out.append(f"{at}: left out, no column can be named for it")
        elif folded.count(own.lower()) > 1:
            left_out.append(f"{at}: left out, another field has the same name for a column")
        elif (kept := _declared(child, at, left_out)) is None:
            left_out.append(f"{at}: left out, it has no fields")
        else:
            properties[own] = {**kept, "sent_as": sent} if own != sent else kept
    if not properties:
        return None
    required = [names[sent] for sent in node.get("required", ()) if names[sent] in properties]
    said = {key: value for key, value in node.items() if key != "required"}
    return {**said, **({"required": required} if required else {}), "properties": properties}
