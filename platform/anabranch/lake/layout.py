"""The paths of all tables, checkpoints and builds. Names are validated here, so no name can lead out of the lake."""

from __future__ import annotations

from pathlib import Path

from anabranch.core.errors import BadInput
from anabranch.core.settings import SAFE_NAME, Settings


def safe_name(name: str, what: str) -> str:
    """``name`` itself, or BadInput NAME_UNSAFE: names become folders, so only lower case letters, digits and _ pass."""
    if not SAFE_NAME.fullmatch(name):
        raise BadInput(
            "NAME_UNSAFE", f"{name!r} is no name for a {what}", next_step="use a-z, 0-9 and _, starting with a letter"
        )
    return name


def landing_table(settings: Settings, topic: str) -> str:
    return str(settings.lake / "landing" / safe_name(topic, "topic"))


def view_folder(settings: Settings, view: str, version: int) -> Path:
    if version < 1:
        raise BadInput("VERSION_UNSAFE", f"{version} is no version of a view", next_step="versions start at 1")
    return settings.lake / "views" / safe_name(view, "view") / f"v{version}"


def speed_table(settings: Settings, view: str, version: int) -> str:
    return str(view_folder(settings, view, version) / "speed")


def batch_table(settings: Settings, view: str, version: int) -> str:
    return str(view_folder(settings, view, version) / "batch")


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


def speed_checkpoint(settings: Settings, view: str, version: int) -> Path:
    return settings.checkpoints / "speed" / safe_name(view, "view") / f"v{version}"


def turns(settings: Settings) -> Path:
    """The folder of the writer fences: with the checkpoints, because processes that share those must share the
    fences."""
    return settings.checkpoints / "turns"


def replay_checkpoints(settings: Settings, view: str, version: int) -> Path:
    """The folder of the replays' checkpoints, one for each run."""
    view_folder(settings, view, version)
    return settings.checkpoints / "replay" / view / f"v{version}"


def replay_table(settings: Settings, view: str, version: int, run: str) -> str:
    """In the same folder as the speed half, because its files are hard-linked into that table."""
    return str(view_folder(settings, view, version) / "replay" / run)


def replay_mirrors(settings: Settings, view: str, version: int) -> Path:
    """The folder of the landing mirrors that replays read from, one for each run."""
    view_folder(settings, view, version)
    return settings.home / "replays" / view / f"v{version}"


def landing_files_lock(settings: Settings) -> Path:
    """Held shared while a process starts to read landing commit by commit, exclusively while old files or commits are
    deleted or archived."""
    return settings.locks / "landing-files"


def restoring(settings: Settings) -> Path:
    """Where a restore copies a backup to, before it moves it into place. While it exists the home isn't complete."""
    return settings.home / ".restoring"


def run_records(settings: Settings) -> Path:
    """Which Airflow run each of our run keys stands for: a small file for each."""
    return settings.home / "control" / "runs"
