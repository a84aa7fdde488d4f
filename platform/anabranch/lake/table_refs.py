"""References to all tables of the platform: kind, owner (topic or view), and the writer that commits to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.lake.layout import certificates_table

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
    """The existing tables of these kinds."""
    return [
        place for kind in kinds for place in _candidates(settings, kind) if (Path(place.uri) / "_delta_log").is_dir()
    ]


def _candidates(settings: Settings, kind: Kind) -> Iterator[TableRef]:
    lake = settings.lake
    if kind == "certificates":
        yield TableRef(kind, certificates_table(settings))
    elif kind in ("speed", "batch"):
        for folder in sorted((lake / "views").glob(f"*/v*/{kind}")):
            view, version = folder.parents[1].name, folder.parent.name[1:]
            if SAFE_NAME.fullmatch(view) and version.isdecimal():
                yield TableRef(kind, str(folder), view, int(version))
    else:
        found = sorted((lake / kind).glob("*"))
        yield from (TableRef(kind, str(folder), folder.name) for folder in found if SAFE_NAME.fullmatch(folder.name))
