"""Finds columns that the topic's contracts have and the landing table lacks. A table only grows: a field that no
contract names any more stays, with its data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deltalake import DeltaTable, Schema

from anabranch.contracts import Topic
from anabranch.core.errors import BadDefinition, BrokenState
from anabranch.ingest.landing.table.schema import ADDED, EVENT_DATE, FIXED, PROPERTIES, landing_schema

VERSIONS: Final = "versions"
"""Key in a landing commit's metadata: the newest version of each contract with several versions, of which events may
have landed."""

LANDING_FORMAT: Final = 2
"""Of what every landing table has: 1 had no headers of records, and statistics of other columns."""


def table_format(table: DeltaTable) -> int:
    """The format of a landing table, whatever the contracts of its topic."""
    names = {field.name for field in table.schema().fields}
    newest = names >= ADDED.keys() and PROPERTIES.items() <= table.metadata().configuration.items()
    return LANDING_FORMAT if newest else 1


def versions_note(topic: Topic) -> dict[str, Any]:
    """The entry for a commit's metadata; empty while no contract of the topic has a second version."""
    found = {name: topic.newest(name).version for name in topic.event_types if len(topic.versions(name)) > 1}
    return {VERSIONS: found} if found else {}


def withdrawn_versions(topic: Topic, landed: Mapping[str, int]) -> dict[str, int]:
    """Of the versions that a commit names, those that ``topic`` doesn't have. Call it when a writer starts: the table
    has been opened, so no event of them has landed (``check_registered``), and they needn't be repeated."""
    known = {name: topic.newest(name).version for name in topic.event_types}
    return {name: version for name, version in landed.items() if version > known.get(name, 0)}


def newest_versions(topic: Topic, landed: Mapping[str, int], withdrawn: Mapping[str, int]) -> dict[str, int]:
    """The newest versions after a commit by ``topic`` on top of one that names ``landed``: a newer process may have
    landed events of versions that this one doesn't know yet (a release from quarantine)."""
    own: Mapping[str, int] = versions_note(topic).get(VERSIONS, {})
    others = {name: version for name, version in landed.items() if withdrawn.get(name) != version}
    return {name: max(own.get(name, 0), others.get(name, 0)) for name in sorted({*own, *others})}


def missing_columns(table: DeltaTable, topic: Topic) -> list[str]:
    """The paths of the columns and nested fields to add to the table, in declaration order.

    Raises BadDefinition LANDING_TYPES if a field exists with another type, so that no file could hold both; BrokenState
    LANDING_SCHEMA if a column is missing that every landing table has.
    """
    known = _fields(json.loads(table.schema().to_json()))
    wanted = _fields(json.loads(Schema.from_arrow(landing_schema(topic)).to_json()))
    fixed = [name for name in (*FIXED.names, EVENT_DATE) if name not in known and name not in ADDED]
    if fixed:
        raise BrokenState(
            "LANDING_SCHEMA",
            f"{table.table_uri} lacks the columns {fixed}",
            state="nothing was landed",
            next_step="it is no landing table, or another program has changed it: restore it",
        )
    found = list(_compared(known, wanted, ""))
    clashes = [f"{path} is {was} in the table and {now} in the contract" for path, was, now in found if was]
    if clashes:
        raise BadDefinition(
            "LANDING_TYPES",
            f"{table.table_uri}: {'; '.join(clashes)}",
            state="nothing was landed; what was landed before is unchanged",
            next_step="give the field another name: events of the old type stay, and one column can't hold both types",
            clashes=tuple(clashes),
        )
    return [path for path, _, _ in found]


def _compared(known: Mapping[str, Any], wanted: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """(path, "", "") for each missing field, (path, type in the table, wanted type) for each with another type."""
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
        case {"type": "map"}, {"type": "map"}:
            yield from _types(there["valueType"], kind["valueType"], f"{at}.*")
        case _ if there != kind:
            yield at, _word(there), _word(kind)


def _fields(struct: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in struct["fields"]}


def _word(kind: Any) -> str:
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)
