"""Old homes unpacked at a place of their own, and what their own code had read from them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from anabranch.core.settings import Settings

FOLDER: Final = Path(__file__).parent
PLACE: Final = b"@PROJECT@"
HOME: Final = "project/.anabranch/"


def archives() -> list[Path]:
    return sorted(FOLDER.glob("home_*.tar.xz"))


def files_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Each file's path and its content as it is stored."""
    with tarfile.open(archive, "r:xz") as opened:
        for entry in opened:
            content = opened.extractfile(entry)
            assert content is not None
            yield entry.name, content.read()


def unpack(archive: Path, folder: Path, **more: Any) -> Settings:
    """The settings of the home, below ``folder``, as ``anabranch.env`` of its project gives them, and ``more``."""
    project = folder / "project"
    for name, content in files_in(archive):
        target = folder / name
        assert target.resolve().is_relative_to(folder.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.replace(PLACE, str(project).encode()))
    lines = (project / "anabranch.env").read_text().splitlines()
    stored = {name.removeprefix("ANABRANCH_").lower(): value for name, _, value in (x.partition("=") for x in lines)}
    given = {name: json.loads(value) if value[:1] == "{" else value for name, value in stored.items()}
    return Settings(**{**given, "project": project, "home": project / ".anabranch", **more})


def expected(settings: Settings) -> dict[str, Any]:
    """What the code that made the home had read from it in the end."""
    found: dict[str, Any] = json.loads((settings.project / "expected.json").read_text())
    return found


def hashed(rows: pa.Table, names: list[str]) -> dict[str, Any]:
    """As the scripts do it: the rows, of these columns, as sorted JSON."""
    texts = sorted(json.dumps([row[name] for name in names], default=repr) for row in rows.to_pylist())
    return {"columns": names, "count": len(texts), "sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest()}
