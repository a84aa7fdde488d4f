"""Finds the files of a load: paths, folders, and addresses in S3, with the format of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from anabranch.core.errors import BadInput
from anabranch.ingest.files._remote import is_remote, list_objects
from anabranch.ingest.files._store_away import Patience, until_there

JSON_LINES: Final = "json lines"
CSV: Final = "csv"
PARQUET: Final = "parquet"
AVRO: Final = "avro"
FORMATS: Final = (JSON_LINES, CSV, PARQUET, AVRO)
_ENDINGS: Final = {
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".json": JSON_LINES,
    ".csv": CSV,
    ".parquet": PARQUET,
    ".avro": AVRO,
}
_PACKED: Final = ".gz"
_MAY_BE_PACKED: Final = (JSON_LINES, CSV)


@dataclass(frozen=True, slots=True)
class Address:
    """A file to load: ``name`` as a person writes it, a path or ``s3://bucket/key``. ``packed``: by gzip."""

    name: str
    format: str
    packed: bool = False

    @property
    def remote(self) -> bool:
        return is_remote(self.name)


def find_files(named: Sequence[str], patience: Patience | None = None) -> list[Address]:
    """The files that were named, and those below the folders that were named, in the order of their names.

    A folder's hidden files, and those with the ending of no format, are left out. ``patience``: a store that is away
    is waited for. Raises BadInput LOAD_FILES; TryAgain STORE_UNREACHABLE.
    """
    found = dict.fromkeys(address for name in named for address in _below(name, patience))
    return list(found)


def _below(name: str, patience: Patience | None) -> Iterator[Address]:
    if not name.strip():  # Path("") is the current folder
        raise _refused("an empty name is no file and no folder", "name files, folders, or s3://bucket/prefix")
    if is_remote(name):
        folder = name.rstrip("/") + "/"
        below = until_there(partial(list_objects, name), patience)
        inside = [key for key in below if key == name or _loadable(key.removeprefix(folder))]
    elif _is(name, Path.is_dir):
        paths = sorted(Path(folder, file) for folder, _, files in os.walk(name) for file in files)
        inside = [
            str(path) for path in paths if _loadable(str(path.relative_to(name))) and _is(str(path), Path.is_file)
        ]
    else:
        inside = [name]
    if not inside:
        raise _refused(f"{name} has no file to load", f"endings that are loaded: {', '.join(_ENDINGS)}")
    yield from (_address(path) for path in inside)


def _is(name: str, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(Path(name))
    except (OSError, ValueError):  # a name that is too long, or has a null byte
        return False


def _loadable(inside: str) -> bool:
    """Whether a file is loaded with the folder that it is ``inside`` of."""
    hidden = any(part.startswith((".", "_")) for part in Path(inside).parts)
    kind, packed = _format(inside)
    return not hidden and kind is not None and (not packed or kind in _MAY_BE_PACKED)


def _format(name: str) -> tuple[str | None, bool]:
    """The format by the ending, and whether it is packed."""
    return _ENDINGS.get(Path(name.removesuffix(_PACKED)).suffix.lower()), name.endswith(_PACKED)


def _address(name: str) -> Address:
    kind, packed = _format(name)
    if kind is None:
        raise _refused(f"{name}: its ending names no format", f"call it by one of {', '.join(_ENDINGS)}")
    if packed and kind not in _MAY_BE_PACKED:
        raise _refused(f"{name}: the ending {_PACKED} is for {' and '.join(_MAY_BE_PACKED)} only", "unpack it first")
    if not is_remote(name) and not _is(name, Path.is_file):
        raise _refused(f"{name} is no file and no folder", "name files, folders, or s3://bucket/prefix")
    return Address(name, kind, packed)


def _refused(what: str, next_step: str) -> BadInput:
    return BadInput("LOAD_FILES", what, state="nothing was loaded", next_step=next_step)
