"""Whether the checksum beside a table's newest commit says what the log says: engines take a table's schema from it and
look no further (delta-rs, too), and the next commit counts on from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from anabranch.core.errors import BrokenState
from anabranch.lake.archived_commits import LOG, read_commit, versions
from anabranch.operate.doctor.context import EVERY, Context, TableRef, TableState
from anabranch.operate.doctor.findings import Finding, failed

_ACTIONS = ("metaData", "protocol")
_NEAR = 20
"""Characters: an action is an object with one key."""


def checksums(platform: Context) -> Iterator[Finding]:
    """CHECKSUM_WRONG: of the version that a table is at. One that isn't there is none that is wrong. A table that can't
    be opened is looked at all the same: it may be by this."""
    for place in platform.places(*EVERY):
        try:
            yield from _of(place, _opened(platform, place))
        except Exception as error:  # whatever is on disk: it is told, and the next table is looked at
            yield failed(f"{place} ({place.uri})", error)


def _opened(platform: Context, place: TableRef) -> TableState | None:
    with suppress(BrokenState):  # told by the check of data files
        return platform.held(place)
    return None


def _of(place: TableRef, held: TableState | None) -> Iterator[Finding]:
    base = Path(place.uri)
    version = held.table.version() if held else max(versions(base), default=0)
    path = base / LOG / f"{version:020d}.crc"
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return
    except ValueError as error:
        said = error
    wrong = list(_wrong(said, base, version, held)) if isinstance(said, Mapping) else [f"it is no checksum ({said})"]
    if wrong:
        mending = f"rm {path}: readers look at the commits then, and the next commit writes a right one"
        yield Finding("CHECKSUM_WRONG", f"{place}: {path}", "; ".join(wrong), mending)


def _wrong(said: Mapping[str, Any], base: Path, version: int, held: TableState | None) -> Iterator[str]:
    if held is not None:
        files = held.files()
        for name, there in (("numFiles", len(files)), ("tableSizeBytes", sum(file.size for file in files))):
            if said.get(name) != there:
                yield f"it says {name} {said.get(name)}, the table has {there}"
    logged = _logged(base, version)
    told, metadata = said.get("metadata"), logged.get("metaData", {})
    told = told if isinstance(told, Mapping) else {}
    for name in ("id", "partitionColumns", "configuration"):
        if told.get(name) != metadata.get(name):
            yield f"it says {name} {told.get(name)}, the log {metadata.get(name)}"
    if _parsed(told.get("schemaString")) != _parsed(metadata.get("schemaString")):
        yield "it says another schema than the log"
    if _plain(said.get("protocol")) != _plain(logged.get("protocol")):
        yield f"it says protocol {said.get('protocol')}, the log {logged.get('protocol')}"


def _logged(base: Path, version: int) -> dict[str, Any]:
    """The newest of each action up to ``version``, by commits and the newest checkpoint: never through an engine, which
    would ask the checksum."""
    checkpoints = {int(path.name[:20]): path for path in (base / LOG).glob("*.checkpoint.parquet")}
    first = max((at for at in checkpoints if at <= version), default=-1)
    found = _checkpointed(checkpoints[first]) if first >= 0 else {}
    for at in range(first + 1, version + 1):
        for line in read_commit(base, at).splitlines():
            if any(f'"{name}"' in line[:_NEAR] for name in _ACTIONS):
                found |= json.loads(line)
    return found


def _checkpointed(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in pq.read_table(path, columns=list(_ACTIONS)).to_pylist(maps_as_pydicts="strict"):
        found |= {name: action for name, action in row.items() if action is not None}
    return found


def _parsed(schema: object) -> object:
    try:
        return json.loads(str(schema))
    except ValueError:
        return None


def _plain(protocol: object) -> object:
    """Without what is empty, and without an order: so it may be written or not."""
    if not isinstance(protocol, Mapping):
        return None
    return {name: sorted(v) if isinstance(v, list | tuple) else v for name, v in protocol.items() if v}
