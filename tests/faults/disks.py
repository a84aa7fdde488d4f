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
        filler.write_bytes(b"\0" * max(free.f_bavail * free.f_frsize - left, 0))
        try:
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
