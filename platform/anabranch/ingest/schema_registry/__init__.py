"""Schemas of a registry: found once by their id, and kept in the home, so that history stays readable without it.

In: ids that records name. Out: a topic that knows its schemas (``Avro.schemas``), which every decoding needs.

1. ``_registry`` asks the registry, through Confluent's client;
2. ``_known_schemas`` keeps what it answered (``control/schemas/TOPIC``) and fills it into a topic. Landing and releases
   ask for ids that are not known yet; everything else reads what is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.ingest.schema_registry._known_schemas import (
        SCHEMAS,
        asking_registry,
        keep_schema,
        kept_schemas,
        with_schemas,
        with_schemas_of,
    )
    from anabranch.ingest.schema_registry._registry import newest_schema
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_known_schemas": (
                "SCHEMAS",
                "asking_registry",
                "keep_schema",
                "kept_schemas",
                "with_schemas",
                "with_schemas_of",
            ),
            "_registry": ("newest_schema",),
        },
    )

__all__ = [
    "SCHEMAS",
    "asking_registry",
    "keep_schema",
    "kept_schemas",
    "newest_schema",
    "with_schemas",
    "with_schemas_of",
]
