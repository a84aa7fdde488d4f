"""The demo's readers, for the soak: while a migration moves them, and as a count of who reads which version."""

from __future__ import annotations

from anabranch.serve import read
from anabranch_samples.demo import _readers
from anabranch_samples.demo._readers import NAMES


class Readers(_readers.Readers):
    pause = 0.5

    def everybody(self) -> dict[str, int]:
        """The version that each name gets now."""
        return {name: read(self._view, settings=self._settings, reader=name).version for name in NAMES}

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} of v{version}" for version, count in sorted(self.reads.items()))
        return f"{len(NAMES)} readers looked on: {told or 'no reads'}"
