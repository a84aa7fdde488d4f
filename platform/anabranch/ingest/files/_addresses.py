"""Finds the files of a load: paths, folders, and addresses in S3, with the format of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.errors import BadInput
from anabranch.ingest.files._remote import is_remote, list_objects

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


@dataclass(frozen=True, slots=True)
class Address:
    """A file to load: ``name`` as a person writes it, a path or ``s3://bucket/key``. ``packed``: by gzip."""

    name: str
    format: str
    packed: bool = False

    @property
    def remote(self) -> bool:
        return is_remote(self.name)


def find_files(named: Sequence[str]) -> list[Address]:
    """The files that were named, and those below the folders that were named, in the order of their names.

    A folder's hidden files, and those with the ending of no format, are left out. Raises BadInput LOAD_FILES.
    """
    found = dict.fromkeys(address for name in named for address in _below(name))
    return list(found)


def _below(name: str) -> Iterator[Address]:
    if not name.strip():  # Path("") is the current folder
        raise _refused("an empty name is no file and no folder", "name files, folders, or s3://bucket/prefix")
    if is_remote(name):
        inside = [key for key in list_objects(name) if _loadable(key) or key == name]
    elif _is(name, Path.is_dir):
        folder = Path(name)
        inside = [str(path) for path in sorted(folder.rglob("*")) if path.is_file() and _loadable(str(path))]
        inside = [path for path in inside if not _hidden(Path(path).relative_to(folder))]
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


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _loadable(path: str) -> bool:
    return Path(path.removesuffix(_PACKED)).suffix.lower() in _ENDINGS


def _address(name: str) -> Address:
    packed = name.endswith(_PACKED)
    kind = _ENDINGS.get(Path(name.removesuffix(_PACKED)).suffix.lower())
    if kind is None or (packed and kind not in (JSON_LINES, CSV)):
        raise _refused(f"{name}: its ending names no format", f"call it by one of {', '.join(_ENDINGS)}")
    if not is_remote(name) and not _is(name, Path.is_file):
        raise _refused(f"{name} is no file and no folder", "name files, folders, or s3://bucket/prefix")
    return Address(name, kind, packed)


def _refused(what: str, next_step: str) -> BadInput:
    return BadInput("LOAD_FILES", what, state="nothing was loaded", next_step=next_step)
