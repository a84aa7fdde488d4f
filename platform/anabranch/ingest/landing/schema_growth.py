"""What a landing table lacks of what its topic's contracts say today. It only ever grows: a field that no contract
names any more stays, with what was landed in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from anabranch.contracts import Topic
from anabranch.core.errors import BadDefinition, BrokenState
from anabranch.ingest.landing.schema import EVENT_DATE, FIXED, landing_schema
from deltalake import DeltaTable, Schema

VERSIONS: Final = "versions"
"""In a landing commit's note: the newest version of each contract that has several, as the writer knew them."""


def versions_note(topic: Topic) -> dict[str, Any]:
    """For a commit's note; nothing while no contract of the topic has a second version."""
    found = {name: topic.newest(name).version for name in topic.event_types if len(topic.versions(name)) > 1}
    return {VERSIONS: found} if found else {}


def missing_columns(table: DeltaTable, topic: Topic) -> list[str]:
    """The paths of the columns and nested fields that the table has to be given, in the order of the declaration.

    BadDefinition LANDING_TYPES: a field is there as another type, so no file could hold both. BrokenState
    LANDING_SCHEMA: one of the columns is missing that have nothing to do with contracts.
    """
    known = _fields(json.loads(table.schema().to_json()))
    wanted = _fields(json.loads(Schema.from_arrow(landing_schema(topic)).to_json()))
    fixed = [name for name in (*FIXED.names, EVENT_DATE) if name not in known]
    if fixed:
        raise BrokenState(
            "LANDING_SCHEMA",
            f"{table.table_uri} has no columns {fixed}",
            state="nothing was landed",
            next_step="it is no landing table, or another program has changed it: restore it",
        )
    found = list(_compared(known, wanted, ""))
    clashes = [f"{path} is {was} there and {now} by contract" for path, was, now in found if was]
    if clashes:
        raise BadDefinition(
            "LANDING_TYPES",
            f"{table.table_uri}: {'; '.join(clashes)}",
            state="nothing was landed; what was landed before is as it was",
            next_step="give the field another name: events of the old type stay, and one column can't hold both",
            clashes=tuple(clashes),
        )
    return [path for path, _, _ in found]


def _compared(known: Mapping[str, Any], wanted: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """(path, "", "") of each field that is lacking, (path, type there, type wanted) of each that is another."""
    for name, kind in wanted.items():
        at = f"{path}{name}"
        if name not in known:
            yield at, "", ""
        else:
            yield from _types(known[name], kind, at)


def _types(there: Any, kind: Any, at: str) -> Iterator[tuple[str, str, str]]:
    match there, kind:
        case {"type": "struct"}, {"type": "struct"}:
            yield from _compared(_fields(there), _fields(kind), f"{at}.")
        case {"type": "array"}, {"type": "array"}:
            yield from _types(there["elementType"], kind["elementType"], f"{at}[]")
        case _ if there != kind:
            yield at, _word(there), _word(kind)


def _fields(struct: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in struct["fields"]}


def _word(kind: Any) -> str:
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)
