"""References to all tables of the platform: kind, owner (topic or view), and the writer that commits to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.core.storage import storage_of
from anabranch.lake.layout import certificates_table, versions_below

Kind = Literal["landing", "speed", "batch", "certificates", "routes"]
EVERY: tuple[Kind, ...] = ("speed", "batch", "certificates", "routes", "landing")


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table of the platform. ``name`` is its topic or view; empty for the certificates table."""

    kind: Kind
    uri: str
    name: str = ""
    version: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "certificates":
                return "certificates"
            case "speed" | "batch":
                return f"{self.name} v{self.version}, {self.kind} half"
            case kind:
                return f"{kind} of {self.name}"

    @property
    def writer(self) -> str:
        """The only writer that commits to this table."""
        match self.kind:
            case "certificates":
                return "certificates"
            case "routes":
                return f"route/{self.name}"
            case "landing":
                return f"landing/{self.name}"
            case half:
                return f"view/{self.name}/v{self.version}/{half}"


def existing_tables(settings: Settings, *kinds: Kind) -> list[TableRef]:
    """The existing tables of these kinds, without those of a version that is being deleted."""
    logs = ((place, Path(place.uri) / "_delta_log") for kind in kinds for place in _candidates(settings, kind))
    return [place for place, log in logs if storage_of(log).holds(log)]


def _candidates(settings: Settings, kind: Kind) -> Iterator[TableRef]:
    lake = settings.lake
    if kind == "certificates":
        yield TableRef(kind, certificates_table(settings))
    elif kind in ("speed", "batch"):
        for ref in versions_below(settings, lake / "views"):
            if not storage_of(ref.dropping).exists(ref.dropping):
                yield TableRef(kind, str(ref.folder / kind), ref.name, ref.version)
    else:
        found = (name for name in _names(lake / kind) if SAFE_NAME.fullmatch(name))
        yield from (TableRef(kind, str(lake / kind / name), name) for name in found)


def _names(folder: Path) -> list[str]:
    return sorted(storage_of(folder).names(folder))
