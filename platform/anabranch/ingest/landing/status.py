"""The status file of landing: the halted topics and their errors, for `anabranch status`; replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.core.atomic_files import write_atomically
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings


def write(settings: Settings, halted: Mapping[str, AnabranchError]) -> None:
    """Replace the file: exactly these topics are halted now."""
    content = {topic: {"code": error.code, "error": str(error)} for topic, error in halted.items()}
    write_atomically(settings.run / _FILE, json.dumps({"halted": content}))


def read(settings: Settings) -> dict[str, str]:
    """The error code of each halted topic; empty before landing has run."""
    try:
        halted = json.loads((settings.run / _FILE).read_text())["halted"]
        return {topic: entry["code"] for topic, entry in halted.items()}
    except (OSError, ValueError, KeyError):
        return {}


_FILE = "landing-halted.json"
