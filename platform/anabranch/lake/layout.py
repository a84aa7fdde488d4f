"""The paths of all tables, checkpoints and builds, and which tables there are: kind, owner (topic or view) and writer.

Names are validated here, so no name can lead out of the lake.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from anabranch.core.errors import BadInput
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.core.storage import listed, storage_of

Kind = Literal["landing", "speed", "batch", "certificates", "routes"]
EVERY: tuple[Kind, ...] = ("speed", "batch", "certificates", "routes", "landing")


def safe_name(name: str, what: str) -> str:
    """``name`` itself, or BadInput NAME_UNSAFE: names become folders, so only lower case letters, digits and _ pass."""
    if not SAFE_NAME.fullmatch(name):
        raise BadInput(
            "NAME_UNSAFE", f"{name!r} is no name for a {what}", next_step="use a-z, 0-9 and _, starting with a letter"
        )
    return name


@dataclass(frozen=True)
class VersionRef:
    """One version of a view in one home, and where everything of it is kept. Nothing has to exist, or to be declared:
    versions that are retired, or no longer in the project's files, have one, too. ``ViewHandle`` adds what is declared.

    Raises BadInput NAME_UNSAFE, VERSION_UNSAFE.
    """

    settings: Settings = field(repr=False)
    name: str
    version: int

    def __post_init__(self) -> None:
        safe_name(self.name, "view")
        if self.version < 1:
            raise BadInput("VERSION_UNSAFE", f"{self.version} is no version of a view", next_step="versions start at 1")

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def writer(self) -> str:
        """How commits and checkpoints name the version."""
        return f"view/{self.name}/v{self.version}"

    @property
    def folder(self) -> Path:
        """Everything of the version that readers and runs share."""
        return self.settings.lake / "views" / self._path

    @property
    def speed_table(self) -> str:
        return str(self.folder / "speed")

    @property
    def batch_table(self) -> str:
        return str(self.folder / "batch")

    @property
    def dropping(self) -> Path:
        """An object that is there while the version is deleted: its tables count as gone."""
        return self.folder / "dropping"

    @property
    def speed_checkpoint(self) -> Path:
        return self.settings.checkpoints / "speed" / self._path

    @property
    def replay_checkpoints(self) -> Path:
        """The folder of the replays' checkpoints, one for each run."""
        return self.settings.checkpoints / "replay" / self._path

    @property
    def replay_mirrors(self) -> Path:
        """The folder of the landing mirrors that replays read from, one for each run."""
        return self.settings.home / "replays" / self._path

    @property
    def replay_tables(self) -> Path:
        """The folder of the replays' tables, one for each run. It is in the same folder as the speed half, because
        their files are hard-linked into that table."""
        return self.folder / "replay"

    @property
    def _path(self) -> Path:
        return Path(self.name, f"v{self.version}")


def versions_below(settings: Settings, *folders: Path) -> list[VersionRef]:
    """The versions of views that have a folder (``VIEW/v1``) in one of these, sorted. Other names are passed over."""
    found = {
        (view.name, int(version.name[1:]))
        for folder in folders
        for view in listed(folder)
        for version in listed(view, "v*")
        if SAFE_NAME.fullmatch(view.name) and version.name[1:].isdecimal()
    }
    return [VersionRef(settings, name, version) for name, version in sorted(found) if version > 0]


def speed_table(settings: Settings, view: str, version: int) -> str:
    """For files of users that import it; ours use ``VersionRef``."""
    warnings.warn("speed_table: use VersionRef(settings, view, version).speed_table", FutureWarning, stacklevel=2)
    return VersionRef(settings, view, version).speed_table


def batch_table(settings: Settings, view: str, version: int) -> str:
    """For files of users that import it; ours use ``VersionRef``."""
    warnings.warn("batch_table: use VersionRef(settings, view, version).batch_table", FutureWarning, stacklevel=2)
    return VersionRef(settings, view, version).batch_table


def landing_table(settings: Settings, topic: str) -> str:
    return str(settings.lake / "landing" / safe_name(topic, "topic"))


def certificates_table(settings: Settings) -> str:
    return str(settings.lake / "certificates")


def routes_table(settings: Settings, view: str) -> str:
    return str(settings.lake / "routes" / safe_name(view, "view"))


def landing_checkpoint(settings: Settings, topic: str) -> Path:
    return settings.checkpoints / "landing" / safe_name(topic, "topic")


def landing_index(settings: Settings, topic: str) -> Path:
    return settings.home / "index" / safe_name(topic, "topic")


def loaded_files(settings: Settings, topic: str) -> Path:
    """Which files were loaded into a topic's landing table: a small record of each."""
    return settings.home / "control" / "loads" / safe_name(topic, "topic")


def topic_schemas(settings: Settings, topic: str) -> Path:
    """The schemas of a registry that records of a topic name."""
    return settings.home / "control" / "schemas" / safe_name(topic, "topic")


def load_lock(settings: Settings, topic: str) -> Path:
    """Held while a process loads files into a topic's landing table."""
    return settings.locks / f"load-{safe_name(topic, 'topic')}"


def store_away_lock(settings: Settings, topic: str) -> Path:
    """Held while a load into a topic waits for its store: then the report of the load says why."""
    return settings.locks / f"store-away-{safe_name(topic, 'topic')}"


def store_away_locks(settings: Settings) -> dict[str, Path]:
    """These locks by topic: of all loads that have ever waited."""
    begin = "store-away-"
    return {path.name.removeprefix(begin): path for path in sorted(settings.locks.glob(f"{begin}*"))}


def turns(settings: Settings) -> Path:
    """The folder of the writer fences: with the checkpoints, because processes that share those must share the
    fences."""
    return settings.checkpoints / "turns"


def landing_files_lock(settings: Settings) -> Path:
    """Held shared while a process starts to read landing commit by commit, exclusively while old files or commits are
    deleted or archived. Nobody waits for ever: who deletes waits ``READERS_BEGIN``, a reader ``FILES_DELETED``, and
    then says who holds it."""
    return settings.locks / "landing-files"


READERS_BEGIN: Final = 600.0
"""Seconds: a replay or a trial counts the events that it will read first. Deleting files can wait for the next run."""
FILES_DELETED: Final = 600.0
"""Seconds: the files of a large table are listed and deleted one by one."""


def restoring(settings: Settings) -> Path:
    """Where a restore copies a backup to, before it moves it into place. While it exists the home isn't complete."""
    return settings.home / ".restoring"


def run_records(settings: Settings) -> Path:
    """Which Airflow run each of our run keys stands for: a small file for each."""
    return settings.home / "control" / "runs"


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
