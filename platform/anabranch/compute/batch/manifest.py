"""The manifest of a rebuild: it describes staged files that no reader sees yet. ``StagedBuild``: where they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BadInput, BrokenState, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.core.text.quantities import counted
from anabranch.lake.cut import Cut
from anabranch.lake.files import StagedFile
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import PARTITION_DATE

EXPIRED: Final = ".expired"
"""The suffix of a manifest that is too old to be published."""
RUN = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")


@dataclass(frozen=True, slots=True)
class Build:
    """The staged result of one rebuild. ``files`` hold the rows of ``partitions`` up to ``cut``; a partition without a
    file is empty. ``columns``: the schema of a file, as Delta's JSON. ``seconds``: the duration of the rebuild."""

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


MANIFEST: Final = ControlFile("build's manifest", Build)


def builds_folder(ref: VersionRef) -> Path:
    return ref.settings.home / "control" / "builds" / ref.name / f"v{ref.version}"


def run_file(folder: Path, run: str) -> Path:
    """The control file of a run. Raises BadInput RUN_ID: runs become names of files."""
    if not RUN.fullmatch(run):
        raise BadInput("RUN_ID", f"{run!r} isn't a valid run id", next_step="use a-z, 0-9 and -", field="run")
    return folder / f"{run}.json"


def manifest_path(ref: VersionRef, run: str) -> Path:
    return run_file(builds_folder(ref), run)


def write_manifest(settings: Settings, build: Build) -> Path:
    """Writes the manifest atomically: one that exists is complete."""
    path = manifest_path(VersionRef(settings, build.view, build.version), build.run)
    return MANIFEST.write(path, build)


def read_manifest(ref: VersionRef, run: str) -> Build:
    """The build of ``run``. Raises BrokenState BUILD_MISSING when its rebuild hasn't succeeded, or its manifest is
    damaged; TryAgain BUILD_UNREADABLE when that can't be read now."""
    path = manifest_path(ref, run)
    state, again = "this step has published nothing", "run its rebuild again"
    try:
        found = MANIFEST.read(path)
    except OSError as error:
        raise unreadable_now(path, error) from error
    except ValueError as error:
        what = f"{ref}: the build of run {run} is unreadable: {error}"
        raise BrokenState("BUILD_MISSING", what, state=state, next_step=f"move {path} away, and {again}") from error
    if found is None:
        raise BrokenState("BUILD_MISSING", f"{ref}: run {run} has no build: no {path}", state=state, next_step=again)
    return found


def unreadable_now(path: Path, error: OSError) -> TryAgain:
    """For a run's file that may be there, and can't be read."""
    return TryAgain(
        "BUILD_UNREADABLE",
        f"{path} can't be read: {error}",
        state="this step has published nothing; what is built stays",
        next_step="make the file readable, and run the step again",
    )


def manifests(ref: VersionRef) -> list[Path]:
    """The manifests of all builds that may still be published."""
    return [p for p in listed(builds_folder(ref), "*.json") if RUN.fullmatch(p.stem)]


def expire(path: Path) -> Path:
    """Marks a manifest so that it can't be published any more. It still lists its files until they are deleted, because
    a concurrent run may be publishing them."""
    expired, storage = path.with_name(path.name + EXPIRED), storage_of(path)
    storage.write(expired, storage.read(path))  # written anew: its time is that of its expiry
    storage.remove(path)
    return expired


def expired_manifests(ref: VersionRef, after: float = 0.0) -> list[Path]:
    """The manifests that expired after this time (seconds since 1970)."""
    found = listed(builds_folder(ref), f"*.json{EXPIRED}")
    return [path for path in found if storage_of(path).modified(path) >= after]


def named_files(paths: Iterable[Path]) -> tuple[set[str], str]:
    """The files that these manifests list, and which manifest can't be read ("" if all can). One that is gone lists
    none. One that can't be read may be mended, and its build be published: nobody may take its files for unneeded.
    Raises OSError if one can't be read now."""
    names = set[str]()
    for path in paths:
        try:
            build = MANIFEST.read(path)
        except (ValueError, BrokenState) as error:  # BrokenState: a newer version has written it
            return set(), f"{path.name} is no manifest that can be read ({root_cause(error)})"
        names.update(file.path for file in (build.files if build is not None else ()))
    return names, ""


def discard(settings: Settings, build: Build) -> None:
    """Deletes the build's files and manifest. Only for a build of which nothing was published."""
    ref = VersionRef(settings, build.view, build.version)
    base, manifest = Path(ref.batch_table), manifest_path(ref, build.run)
    for path in (*(base / file.path for file in build.files), manifest):
        storage_of(path).remove(path)


def days(first: date, last: date) -> Sequence[date]:
    """Every day from ``first`` to ``last``, both included."""
    return [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]


def days_text(partitions: Sequence[date]) -> str:
    """Formats sorted days for a job's flag: ``2013-01-01..2013-01-31,2013-02-03``."""
    runs: list[list[date]] = []
    for day in partitions:
        if runs and day.toordinal() - runs[-1][-1].toordinal() == 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def days_in_words(partitions: Sequence[date] | None) -> str:
    """The same for people: the runs of days, or how many days if they are many; None: the whole view."""
    if partitions is None:
        return "the whole view"
    text = days_text(partitions)
    return counted(len(partitions), "day") if len(text) > 60 else text.replace("..", " to ").replace(",", ", ")


def parse_days(text: str) -> list[date]:
    """Parses the text of ``days_text``. Raises ValueError."""
    ranges = [[date.fromisoformat(day) for day in part.split("..")] for part in text.split(",")]
    return [day for bounds in ranges for day in days(bounds[0], bounds[-1])]


@dataclass(frozen=True, slots=True)
class StagedBuild:
    """Parquet files that readers don't see yet: absolute paths, in Hive partition folders below ``base``."""

    base: str
    cut: Cut
    partitions: tuple[date, ...]
    files: Mapping[date, tuple[str, ...]] = field(hash=False)

    @staticmethod
    def of(settings: Settings, build: Build) -> StagedBuild:
        """Return the files of a manifest. They are in the batch table's folder."""
        table = Path(VersionRef(settings, build.view, build.version).batch_table)
        files: dict[date, tuple[str, ...]] = {}
        for file in build.files:
            day = date.fromisoformat(str(file.partition[PARTITION_DATE]))
            files[day] = (*files.get(day, ()), str(table / file.path))
        base = (table / build.files[0].path).parent.parent if build.files else table
        return StagedBuild(str(base), build.cut, build.partitions, files)

    def paths(self, partitions: Sequence[date]) -> list[str]:
        return [path for day in partitions for path in self.files.get(day, ())]
