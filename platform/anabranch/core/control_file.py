"""Small files that processes leave for each other, as JSON with a format version.

A ``ControlFile`` says how values of one type are stored: a dataclass, validated by pydantic when it is read. A file
without a version is of format 1. Older formats are upgraded while they are read; a newer one than this code knows is
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
from anabranch.core.atomic_files import create_once, write_atomically
from anabranch.core.errors import BrokenState

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
        if taken := {_KIND, _FORMAT} & getattr(self.type_, "__dataclass_fields__", {}).keys():
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
        return json.dumps({_KIND: self.kind, _FORMAT: self.format, **self.content(value)})

    def from_text(self, text: str, path: Path) -> T:
        """The stored value. Raises ValueError if it can't be read, BrokenState FORMAT_NEWER if it was written by a
        newer version of Anabranch; ``path`` is named in errors."""
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError(f"{path} holds no JSON object")
        if (kind := content.pop(_KIND, self.kind)) != self.kind:
            raise ValueError(f"{path} is a {kind}, not a {self.kind}")
        stored = content.pop(_FORMAT, 1)
        if not isinstance(stored, int) or stored < 1:
            raise ValueError(f"{path} names no format: {stored!r}")
        if stored > self.format:
            raise newer_format(path, self.kind, stored, self.format)
        try:
            for upgrade in self.upgrades[stored - 1 :]:
                content = upgrade(content)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: {type(error).__name__}: {error}") from error
        return self._adapter.validate_python(content)

    def create(self, path: Path, value: T) -> bool:
        """Write the file unless there is one already; whether it was written. Raises OSError."""
        return create_once(path, self.to_text(value))

    def write(self, path: Path, value: T) -> Path:
        """Replace the file atomically. For files that one process writes. Raises OSError."""
        return write_atomically(path, self.to_text(value))

    def read(self, path: Path) -> T | None:
        """The value; None if there is no file. Raises OSError, and as ``from_text``."""
        try:
            return self.from_text(path.read_text(), path)
        except FileNotFoundError:
            return None

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


def newer_format(path: Path, kind: str, stored: int, known: int) -> BrokenState:
    """The error FORMAT_NEWER."""
    return BrokenState(
        "FORMAT_NEWER",
        f"{path} is a {kind} of format {stored}; this version of Anabranch knows formats up to {known}",
        state="nothing was changed",
        next_step="install the version of Anabranch that wrote it, or a newer one",
        file=str(path),
        format=stored,
    )


def renamed(names: Mapping[str, str]) -> Upgrade:
    """An upgrade that renames fields."""
    return lambda content: {names.get(name, name): value for name, value in content.items()}
