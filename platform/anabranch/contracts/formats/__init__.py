"""Formats of records: a record's bytes as the JSON document that the contract describes.

In: the bytes of a record in Avro or Protobuf, and its schema. Out: a dictionary, which ``encode`` writes as a JSON
object, or ``Undecodable`` with the reason. Landing calls it from Spark, and again for the reasons of quarantine.

1. ``wire_format`` reads the id of the schema in front of the value, and Protobuf's path to the message;
2. ``_avro`` (over ``_avro_values``) and ``_protobuf`` decode the value by its schema, ``_document`` writes the JSON;
3. ``_shapes`` says what the documents of a schema look like, to compare it with contracts and to infer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.contracts.formats._avro import avro_branches, avro_reader, is_avro_decimal, parsed_schema
    from anabranch.contracts.formats._avro_values import AvroValues
    from anabranch.contracts.formats._document import Undecodable, UnknownSchema, encode
    from anabranch.contracts.formats._protobuf import compiled_schema, protobuf_reader
    from anabranch.contracts.formats._shapes import shape_of
    from anabranch.contracts.formats.wire_format import HEAD, head_of, schema_id
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_avro": ("avro_branches", "avro_reader", "is_avro_decimal", "parsed_schema"),
            "_avro_values": ("AvroValues",),
            "_document": ("Undecodable", "UnknownSchema", "encode"),
            "_protobuf": ("compiled_schema", "protobuf_reader"),
            "_shapes": ("shape_of",),
            "wire_format": ("HEAD", "head_of", "schema_id"),
        },
    )

__all__ = [
    "HEAD",
    "AvroValues",
    "Undecodable",
    "UnknownSchema",
    "avro_branches",
    "avro_reader",
    "compiled_schema",
    "encode",
    "head_of",
    "is_avro_decimal",
    "parsed_schema",
    "protobuf_reader",
    "schema_id",
    "shape_of",
    "wire_format",
]
