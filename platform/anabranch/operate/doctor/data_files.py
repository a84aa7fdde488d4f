"""Whether every file that a table names is there, and whole."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.operate.doctor.context import EVERY, Context, TableState, each
from anabranch.operate.doctor.findings import Finding

_MENDING = {
    "landing": "restore the file from a copy; else move table and checkpoint away, and anabranch up lands again what "
    "the log still holds",
    "speed": "anabranch replay start {name} --version {version}: it builds the speed half again from landing",
    "batch": "anabranch reprocess {name} --version {version} --from DAY --to DAY, of the day in the file's path",
    "certificates": "restore the file from a copy: certificates are history, and nothing makes them again",
    "routes": "restore the file from a copy; the route itself is in the newest commit, and holds",
}


@each(*EVERY)
def data_files(_: Context, held: TableState) -> Iterator[Finding]:
    """FILE_MISSING, FILE_UNREADABLE: one finding for each table and kind of fault, with the first file."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file in held.files():
        fault = file.fault()
        if fault:
            code = "FILE_MISSING" if not file.path.exists() else "FILE_UNREADABLE"
            found.setdefault(code, []).append((str(file.path), fault))
    place = held.place
    for code, faults in found.items():
        path, fault = faults[0]
        more = f", and {len(faults) - 1} more files like it" if len(faults) > 1 else ""
        mending = _MENDING[place.kind].format(name=place.name, version=place.version)
        yield Finding(code, f"{place}: {path}", f"a data file of {place} can't be read: {fault}{more}", mending)
