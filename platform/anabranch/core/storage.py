"""The one seam to storage: objects of bytes, named by paths, with no more than every store can do.

There is no lock, no link, and no rename that others rely on: of several writers of one name, ``create`` lets one
win, and ``write`` the last one. The local disk is the first ``Storage``. Another one is mounted below a folder
(``mounted``); code that reads and writes below it doesn't notice. Spark's checkpoints, and files that only one machine
needs (locks, logs, sockets, secrets), are not reached through here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from uuid import uuid4

_FILE: Final = "file://"


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a list has it; times in seconds since 1970, by the store's clock. ``written``: of its content.
    ``named``: when it got this name, if that was later."""

    path: Path
    size: int
    written: float
    named: float


class Storage(Protocol):
    """Objects by path. Every method raises OSError if the store fails; FileNotFoundError if there is no such object."""

    @property
    def delta_options(self) -> Mapping[str, str]:
        """What delta-rs needs to open a table here."""

    def uri(self, path: Path) -> str:
        """``path`` as delta-rs and Spark name it."""

    def path(self, uri: str) -> Path | None:
        """The path that ``uri`` names; None if it names nothing here."""

    def read(self, path: Path) -> bytes:
        """The whole object."""

    def size(self, path: Path) -> int:
        """The number of its bytes."""

    def exists(self, path: Path) -> bool:
        """Whether there is such an object."""

    def modified(self, path: Path) -> float:
        """When it was written, in seconds since 1970, by the store's clock."""

    def stamp(self, path: Path) -> str:
        """A text that changes when another object takes the name."""

    def names(self, folder: Path) -> list[str]:
        """The names directly in ``folder``, of objects and folders, in no order; none if there is no such folder."""

    def holds(self, folder: Path) -> bool:
        """Whether there is such a folder: without a list of what is in it."""

    def entries(self, folder: Path, *, skip: Collection[str] = ()) -> Iterator[Entry]:
        """Every object below ``folder``, in no order; without those in folders of these names. Objects that are removed
        meanwhile may be left out."""

    def create(self, path: Path, content: bytes, *, durable: bool = False) -> bool:
        """Make the object, whole or not at all, unless there is one already; whether this call made it.

        After an error it looks whether the object is its own: OSError means that it isn't, or that this can't be known.
        ``durable``: it is on the disk, not only in its cache, before others see it.
        """

    def write(self, path: Path, content: bytes) -> None:
        """Make or replace the object, whole or not at all; of two at once the later one wins."""

    def remove(self, path: Path) -> None:
        """Delete the object, if there is one."""

    def clear(self, folder: Path) -> None:
        """Delete the folder with everything below it, if there is one. A kill may leave a part."""

    def move(self, path: Path, to: Path) -> None:
        """Give the object another name. At any moment at least one of both names holds it."""

    def copy(self, path: Path, to: Path) -> None:
        """Give ``to``, a name that no object has, the content of ``path``. Each of both can be removed."""

    def reading(self, path: Path) -> AbstractContextManager[BinaryIO]:
        """The object as a file that can be read at any place."""

    def writing(self, path: Path) -> AbstractContextManager[BinaryIO]:
        """A large object as a file that is written once. Others may see it before it is complete, or only then."""


class LocalDisk:
    """Files. Whole or not at all: a draft next to the file gets its name by a link or a rename."""

    delta_options: Mapping[str, str] = {}

    def uri(self, path: Path) -> str:
        return str(path)

    def path(self, uri: str) -> Path:
        return Path(uri.removeprefix(_FILE))

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def exists(self, path: Path) -> bool:
        return path.exists()

    def modified(self, path: Path) -> float:
        return path.stat().st_mtime

    def stamp(self, path: Path) -> str:
        stat = path.stat()
        return f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}"

    def names(self, folder: Path) -> list[str]:
        try:
            return [path.name for path in folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def holds(self, folder: Path) -> bool:
        return folder.is_dir()

    def entries(self, folder: Path, *, skip: Collection[str] = ()) -> Iterator[Entry]:
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name not in skip]
            for name in names:
                with suppress(FileNotFoundError):
                    path = Path(place, name)
                    stat = path.lstat()  # of a link, not of what it leads to
                    yield Entry(path, stat.st_size, stat.st_mtime, max(stat.st_mtime, stat.st_ctime))

    def create(self, path: Path, content: bytes, *, durable: bool = False) -> bool:
        draft = _draft(path)
        try:
            with draft.open("wb") as file:
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.link(draft, path)
        except OSError as error:
            if path.exists() and draft.exists() and path.samefile(draft):  # made, but the answer was lost
                return True
            if isinstance(error, FileExistsError):
                return False
            raise
        finally:
            _discard(draft)
        return True

    def write(self, path: Path, content: bytes) -> None:
        draft = _draft(path)
        try:
            draft.write_bytes(content)
            draft.replace(path)
        except OSError:
            _discard(draft)
            raise

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def clear(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # others may delete in it, too
        if folder.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)

    def move(self, path: Path, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)

    def copy(self, path: Path, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, to)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:  # another file system, or one without links
            shutil.copy2(path, to)

    def reading(self, path: Path) -> AbstractContextManager[BinaryIO]:
        return path.open("rb")

    @contextmanager
    def writing(self, path: Path) -> Iterator[BinaryIO]:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            yield file


def _draft(path: Path) -> Path:
    """A name of its own next to ``path``, which ``atomic_files.abandoned_drafts`` finds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid4().hex[:8]}.{os.getpid()}")


def _discard(draft: Path) -> None:
    with suppress(OSError):  # what was made is made; maintenance finds what is left
        draft.unlink(missing_ok=True)


DISK: Final = LocalDisk()
_MOUNTED: Final = dict[Path, Storage]()


def storage_of(path: Path) -> Storage:
    """Where ``path`` is stored."""
    for folder, storage in _MOUNTED.items():
        if path.is_relative_to(folder):
            return storage
    return DISK


def listed(folder: Path, pattern: str = "*") -> list[Path]:
    """The paths directly in ``folder``, of objects and folders, whose names match ``pattern`` (of ``fnmatch``),
    sorted."""
    return sorted(folder / name for name in storage_of(folder).names(folder) if fnmatchcase(name, pattern))


def discard(folder: Path) -> None:
    """Clear ``folder`` as far as that is possible; maintenance deletes what is left."""
    with suppress(OSError):
        storage_of(folder).clear(folder)


def path_of(uri: str) -> Path:
    """The path of what delta-rs or Spark names ``uri``."""
    for storage in _MOUNTED.values():
        if (path := storage.path(uri)) is not None:
            return path
    return DISK.path(uri)


@contextmanager
def mounted(folder: Path, storage: Storage) -> Iterator[None]:
    """Below ``folder`` is ``storage``, in this process."""
    _MOUNTED[folder] = storage
    try:
        yield
    finally:
        del _MOUNTED[folder]
