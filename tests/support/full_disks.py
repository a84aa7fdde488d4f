"""A disk that becomes full, or read-only."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Disk:
    """A file system of its own, of few megabytes."""

    path: Path

    @contextlib.contextmanager
    def full(self, left: int = 0) -> Iterator[None]:
        """No more than ``left`` bytes are free inside of this block."""
        filler = self.path / "filler"
        free = os.statvfs(self.path)
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:  # others may write meanwhile
                for _ in range(max(free.f_bavail * free.f_frsize - left, 0) // 4096):
                    file.write(b"\0" * 4096)
            yield
        finally:
            filler.unlink()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        self._mount("remount,ro")
        try:
            yield
        finally:
            self._mount("remount,rw")

    def _mount(self, options: str) -> None:
        subprocess.run(["mount", "-o", options, self.path], check=True)  # noqa: S607
