"""Small files that processes leave for each other, as JSON with a format version.

A ``ControlFile`` says how values of one type are stored: a dataclass, validated by pydantic when it is read. A file
without a format is of format 1. Older formats are upgraded while they are read; a newer one than this code knows is
refused, because what it says would be misunderstood.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from anabranch.core import control_objects
from anabranch.core.formats import WRITTEN_BY, newer_format, package_version
from anabranch.core.storage import storage_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the content of a format as the next one stores it."""
_KIND: Final = "kind"
_FORMAT: Final = "format"


@dataclass(frozen=True)
class ControlFile(Generic[T]):
    """How a ``type_`` is stored. ``kind`` is stored, too, and names it in errors. ``upgrades``: one for each format
    before the newest."""

    kind: str
    type_: type[T]
    upgrades: tuple[Upgrade, ...] = field(default=())

    def __post_init__(self) -> None:
        if taken := {_KIND, _FORMAT, WRITTEN_BY} & getattr(self.type_, "__dataclass_fields__", {}).keys():
            raise TypeError(f"{self.kind}: fields {sorted(taken)} would be hidden by what every control file holds")

    @property
    def format(self) -> int:
        """The format that is written."""
        return len(self.upgrades) + 1

    def content(self, value: T) -> dict[str, Any]:
        """The stored fields of a value, as JSON has them."""
        found: dict[str, Any] = self._adapter.dump_python(value, mode="json")
        return found

    def to_text(self, value: T) -> str:
        return json.dumps(
            {_KIND: self.kind, _FORMAT: self.format, WRITTEN_BY: package_version(), **self.content(value)}
        )

    def from_text(self, text: str, path: Path) -> T:
        """The stored value. Raises ValueError if it can't be read, BrokenState FORMAT_NEWER if it was written by a
        newer version of Anabranch; ``path`` is named in errors."""
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError(f"{path} holds no JSON object")
        if (kind := content.pop(_KIND, self.kind)) != self.kind:
            raise ValueError(f"{path} is a {kind}, not a {self.kind}")
        stored, written_by = content.pop(_FORMAT, 1), content.pop(WRITTEN_BY, "")
        if not isinstance(stored, int) or stored < 1:
            raise ValueError(f"{path} names no format: {stored!r}")
        if stored > self.format:
            raise newer_format(path, self.kind, stored, self.format, written_by)
        try:
            for upgrade in self.upgrades[stored - 1 :]:
                content = upgrade(content)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: {type(error).__name__}: {error}") from error
        return self._adapter.validate_python(content)

    def create(self, path: Path, value: T) -> bool:
        """Write the file unless there is one already; whether it was written. Raises OSError."""
        return storage_of(path).create(path, self.to_text(value).encode())

    def write(self, path: Path, value: T) -> Path:
        """Replace the file atomically. For files that one process writes. Raises OSError."""
        storage_of(path).write(path, self.to_text(value).encode())
        return path

    def read(self, path: Path) -> T | None:
        """The value; None if there is no file. Raises OSError, and as ``from_text``."""
        try:
            return self.from_text(storage_of(path).read(path).decode(), path)
        except FileNotFoundError:
            return None

    def stored_format(self, path: Path) -> int | None:
        """The format of a file; None if there is none. One that is no control file counts as format 1. Raises
        OSError."""
        try:
            text = storage_of(path).read(path)
            found = json.loads(text).get(_FORMAT, 1)
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError):
            return 1
        return found if isinstance(found, int) else 1

    def current(self, path: Path) -> T | None:
        """The newest state of an object that several processes change; None before the first. Raises as ``read``."""
        text = control_objects.current(path)[1]
        return None if text is None else self.from_text(text, path)

    def change(self, path: Path, update: Callable[[T | None], T]) -> T:
        """Replace the newest state by ``update`` of it, by compare-and-set, and return it. Raises as ``read``."""

        def updated(text: str | None) -> str:
            return self.to_text(update(None if text is None else self.from_text(text, path)))

        return self.from_text(control_objects.change(path, updated), path)

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        from pydantic import TypeAdapter

        return TypeAdapter(self.type_)


def renamed(names: Mapping[str, str]) -> Upgrade:
    """An upgrade that renames fields."""
    return lambda content: {names.get(name, name): value for name, value in content.items()}
