"""Files that are whole or not there: what several processes write and read without a lock."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> Path:
    """Give ``path`` this content in one step; its folders are made. Of two at once the later one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    return draft.replace(path)
