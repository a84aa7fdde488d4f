"""Which topics landing has halted, and why, for `anabranch status`: one small file, replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.core.atomic_files import write_atomically
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings


def write(settings: Settings, halted: Mapping[str, AnabranchError]) -> None:
    """From now on these are halted, and no others."""
    told = {topic: {"code": error.code, "error": str(error)} for topic, error in halted.items()}
    write_atomically(settings.run / _FILE, json.dumps({"halted": told}))


def read(settings: Settings) -> dict[str, str]:
    """The code of the error by which each topic is halted; nothing before landing ran."""
    try:
        return {topic: told["code"] for topic, told in json.loads((settings.run / _FILE).read_text())["halted"].items()}
    except (OSError, ValueError, KeyError):
        return {}


_FILE = "landing-halted.json"
