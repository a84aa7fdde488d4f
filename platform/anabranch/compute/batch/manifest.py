"""What a rebuild leaves behind: files that no reader sees yet, and a manifest that says what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

from anabranch.core.atomic_files import write_atomically
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake import Cut, StagedFile
from anabranch.lake.layout import batch_table, safe_name

EXPIRED: Final = ".expired"
"""Behind the name of a manifest that is too old to be published from."""
RUN = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")


@dataclass(frozen=True, slots=True)
class Build:
    """The staged result of one rebuild: ``files`` hold the rows of ``partitions`` up to ``cut``; a partition
    without a file is empty. ``columns`` are those of a file, in Delta's JSON. ``seconds`` is how long it took."""

    view: str
    version: int
    run: str
    fingerprint: str
    cut: Cut
    partitions: tuple[date, ...]
    columns: str
    files: tuple[StagedFile, ...] = field(hash=False)
    rows: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "run": self.run,
            "fingerprint": self.fingerprint,
            "cut": self.cut.to_json(),
            "partitions": [p.isoformat() for p in self.partitions],
            "columns": self.columns,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "files": [
                {"path": f.path, "size": f.size, "rows": f.rows, "partition": dict(f.partition), "stats": f.stats}
                for f in self.files
            ],
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Build:
        return Build(
            content["view"],
            content["version"],
            content["run"],
            content["fingerprint"],
            Cut.from_json(content["cut"]),
            tuple(date.fromisoformat(p) for p in content["partitions"]),
            content["columns"],
            tuple(StagedFile(**f) for f in content["files"]),
            content["rows"],
            content["seconds"],
        )


def builds_folder(settings: Settings, view: str, version: int) -> Path:
    return settings.home / "control" / "builds" / safe_name(view, "view") / f"v{int(version)}"


def manifest_path(settings: Settings, view: str, version: int, run: str) -> Path:
    if not RUN.fullmatch(run):
        raise BadInput("RUN_ID", f"{run!r} is no run id", next_step="use a-z, 0-9 and -", field="run")
    return builds_folder(settings, view, version) / f"{run}.json"


def write_manifest(settings: Settings, build: Build) -> Path:
    """Write it in one step: a manifest that is there is whole."""
    path = manifest_path(settings, build.view, build.version, build.run)
    return write_atomically(path, json.dumps(build.to_json()))


def read_manifest(settings: Settings, view: str, version: int, run: str) -> Build:
    """The build of ``run``. BrokenState BUILD_MISSING when its rebuild has not ended well."""
    path = manifest_path(settings, view, version, run)
    try:
        return Build.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError) as error:
        raise BrokenState(
            "BUILD_MISSING",
            f"{view} v{version}: no build of run {run}: {error}",
            state="nothing was published by this run",
            next_step="run its rebuild again",
        ) from error


def manifests(settings: Settings, view: str, version: int) -> list[Path]:
    """Those of all builds that may still be published."""
    return [p for p in sorted(builds_folder(settings, view, version).glob("*.json")) if RUN.fullmatch(p.stem)]


def expire(path: Path) -> Path:
    """From now on nothing is published from this manifest. Its files stay known by it until they are deleted: somebody
    may just be publishing them."""
    return path.rename(path.with_name(path.name + EXPIRED))


def expired_manifests(settings: Settings, view: str, version: int, after: float = 0.0) -> list[Path]:
    """Those that have expired ``after`` this moment (seconds since 1970)."""
    found = sorted(builds_folder(settings, view, version).glob(f"*.json{EXPIRED}"))
    return [path for path in found if path.stat().st_ctime >= after]


def files_of(path: Path) -> tuple[StagedFile, ...]:
    """The files that a manifest names; none for what is no manifest, or gone."""
    try:
        return Build.from_json(json.loads(path.read_text())).files
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def discard(settings: Settings, build: Build) -> None:
    """Delete the build's files and manifest. Only for a build of which nothing was published."""
    base = Path(batch_table(settings, build.view, build.version))
    for file in build.files:
        (base / file.path).unlink(missing_ok=True)
    manifest_path(settings, build.view, build.version, build.run).unlink(missing_ok=True)


def days(first: date, last: date) -> Sequence[date]:
    """Every day from ``first`` to ``last``, both included."""
    return [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]


def days_text(partitions: Sequence[date]) -> str:
    """Days in order, as a flag of a job: ``2013-01-01..2013-01-31,2013-02-03``."""
    runs: list[list[date]] = []
    for day in partitions:
        if runs and day.toordinal() - runs[-1][-1].toordinal() == 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def parse_days(text: str) -> list[date]:
    """The days of ``days_text``. ValueError when it is none."""
    spans = [[date.fromisoformat(day) for day in span.split("..")] for span in text.split(",")]
    return [day for span in spans for day in days(span[0], span[-1])]
