"""Checks that every data file of a table exists and is complete."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.core.storage import storage_of
from anabranch.lake.layout import EVERY
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding

_MENDING = {
    "landing": "restore the file from a backup; without one, move table and checkpoint away, and anabranch up lands "
    "again what the log still holds",
    "speed": "anabranch replay start {name} --version {version}: it rebuilds the speed half from landing",
    "batch": "anabranch reprocess {name} --version {version} --from DAY --to DAY, with the day in the file's path",
    "certificates": "restore the file from a backup: certificates are history and can't be recomputed",
    "routes": "restore the file from a backup; the route itself is in the newest commit and stays valid",
}


@each(*EVERY)
def data_files(_: Context, state: TableState) -> Iterator[Finding]:
    """FILE_MISSING, FILE_UNREADABLE: one finding per table and kind of fault, with the first file."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file in state.files():
        fault = file.fault()
        if fault:
            code = "FILE_MISSING" if not storage_of(file.path).exists(file.path) else "FILE_UNREADABLE"
            found.setdefault(code, []).append((str(file.path), fault))
    place = state.place
    for code, faults in found.items():
        path, fault = faults[0]
        more = f", and {len(faults) - 1} more files" if len(faults) > 1 else ""
        next_step = _MENDING[place.kind].format(name=place.name, version=place.version)
        yield Finding(code, f"{place}: {path}", f"a data file of {place} can't be read: {fault}{more}", next_step)
