"""Checks that the version checksum of a table's newest commit agrees with the log.

Engines (delta-rs, too) read a table's schema from the checksum instead of the log, and the next commit is computed from
it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anabranch.core.errors import BrokenState
from anabranch.core.storage import listed, storage_of
from anabranch.lake.files import parquet_file
from anabranch.lake.layout import EVERY, TableRef
from anabranch.lake.log.archived_commits import LOG, read_commit, versions
from anabranch.operate.doctor._context import Context, TableState
from anabranch.operate.doctor._findings import Finding, failed

_ACTIONS = ("metaData", "protocol")
_NEAR = 20
"""An action is an object with one key, which stands in the first characters of its line."""


def checksums(context: Context) -> Iterator[Finding]:
    """CHECKSUM_WRONG: the checksum of a table's current version. A missing checksum is fine. Tables that can't be
    opened are checked too: a wrong checksum may be the reason."""
    for place in context.places(*EVERY):
        try:
            yield from _check_table(place, _opened(context, place))
        except Exception as error:  # an unreadable table is a finding; the others are still checked
            yield failed(f"{place} ({place.uri})", error)


def _opened(context: Context, place: TableRef) -> TableState | None:
    with suppress(BrokenState):  # the data files check reports it
        return context.table_state(place)
    return None


def _check_table(place: TableRef, state: TableState | None) -> Iterator[Finding]:
    base = Path(place.uri)
    version = state.table.version() if state else max(versions(base), default=0)
    path = base / LOG / f"{version:020d}.crc"
    try:
        checksum = json.loads(storage_of(path).read(path))
    except FileNotFoundError:
        return
    except ValueError as error:
        checksum = error
    wrong = (
        list(_wrong(checksum, base, version, state))
        if isinstance(checksum, Mapping)
        else [f"it is not a checksum ({checksum})"]
    )
    if wrong:
        next_step = f"rm {path}: readers then use the commits, and the next commit writes a correct one"
        yield Finding("CHECKSUM_WRONG", f"{place}: {path}", "; ".join(wrong), next_step)


def _wrong(checksum: Mapping[str, Any], base: Path, version: int, state: TableState | None) -> Iterator[str]:
    if state is not None:
        files = state.files()
        for name, actual in (("numFiles", len(files)), ("tableSizeBytes", sum(file.size for file in files))):
            if checksum.get(name) != actual:
                yield f"it has {name} {checksum.get(name)}, the table has {actual}"
    logged = _logged(base, version)
    stored, metadata = checksum.get("metadata"), logged.get("metaData", {})
    stored = stored if isinstance(stored, Mapping) else {}
    for name in ("id", "partitionColumns", "configuration"):
        if stored.get(name) != metadata.get(name):
            yield f"it has {name} {stored.get(name)}, the log has {metadata.get(name)}"
    if _parsed(stored.get("schemaString")) != _parsed(metadata.get("schemaString")):
        yield "its schema differs from the log's"
    if _plain(checksum.get("protocol")) != _plain(logged.get("protocol")):
        yield f"it has protocol {checksum.get('protocol')}, the log has {logged.get('protocol')}"


def _logged(base: Path, version: int) -> dict[str, Any]:
    """Returns the newest of each action up to ``version``, read from the commits and the newest checkpoint. Uses no
    engine, because engines read the checksum."""
    checkpoints = {int(path.name[:20]): path for path in listed(base / LOG, "*.checkpoint.parquet")}
    first = max((at for at in checkpoints if at <= version), default=-1)
    found = _checkpointed(checkpoints[first]) if first >= 0 else {}
    for at in range(first + 1, version + 1):
        for line in read_commit(base, at).splitlines():
            if any(f'"{name}"' in line[:_NEAR] for name in _ACTIONS):
                found |= json.loads(line)
    return found


def _checkpointed(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with parquet_file(path) as file:
        rows = file.read(columns=list(_ACTIONS)).to_pylist(maps_as_pydicts="strict")
    for row in rows:
        found |= {name: action for name, action in row.items() if action is not None}
    return found


def _parsed(schema: object) -> object:
    try:
        return json.loads(str(schema))
    except ValueError:
        return None


def _plain(protocol: object) -> object:
    """Normalises a protocol for comparison: drops empty fields, which may be omitted, and sorts lists."""
    if not isinstance(protocol, Mapping):
        return None
    return {name: sorted(v) if isinstance(v, list | tuple) else v for name, v in protocol.items() if v}
