"""The format of a home: where its files are and what they mean together. A small file in the home names it (ADR 0046).

A home without the file is of format 1, as all homes were before the file existed. ``up`` and ``upgrade`` write it;
``load_settings`` reads it, so no process of ours works in a home that a newer version has laid out in another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState


@dataclass(frozen=True, slots=True)
class HomeFormat:
    """What a home says of itself, besides its format: nothing yet."""


HOME: Final = ControlFile("home", HomeFormat)


def home_file(home: Path) -> Path:
    """Below ``control``: a backup has it too."""
    return home / "control" / "home.json"


def is_marked(home: Path) -> bool:
    """Whether the home names its format. Raises as ``check_home``."""
    return check_home(home) is not None


def check_home(home: Path) -> HomeFormat | None:
    """What the home's file says; None if there is none. Raises BrokenState FORMAT_NEWER or HOME_UNREADABLE."""
    file = home_file(home)
    try:
        return HOME.read(file) if _is_written(file) else None
    except (OSError, ValueError) as error:
        raise BrokenState(
            "HOME_UNREADABLE",
            f"{file} can't be read: {error}",
            state="the format of this home is unknown, so nothing of it is read or changed",
            next_step=f"make it readable, or restore it from a backup; if this version wrote the home: rm {file}",
            file=str(file),
        ) from error


def mark_home(home: Path) -> bool:
    """Write the file unless there is one; whether it was written. Raises OSError."""
    file = home_file(home)
    if _is_written(file):
        return False
    HOME.write(file, HomeFormat())
    return True


def _is_written(file: Path) -> bool:
    """A power cut may have left it empty: then it is written again."""
    return file.exists() and file.stat().st_size > 0
