"""Loads files into a topic's landing table, one after the other. Safe to repeat and to kill."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.contracts import Header, Record, Topic
from anabranch.contracts.model.records import Mapped
from anabranch.core.atomic_files import locked
from anabranch.core.control_file import ControlFile
from anabranch.core.engine.spark import hold_scratch
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.files._addresses import Address, find_files
from anabranch.ingest.files._file_epochs import FileEpochs, other_load
from anabranch.ingest.files._full_disk import full_disk
from anabranch.ingest.files._json_lines import refused
from anabranch.ingest.files._prepare import content_hash, prepare
from anabranch.ingest.files._problems import merge
from anabranch.ingest.files._remote import copy_object
from anabranch.ingest.files._store_away import Patience, until_there
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.ingest.landing.loaded_files import LoadedFile, Loads, finished_files, record_file
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.ingest.landing.table.schema import DUPLICATE, LOADED, QUARANTINED
from anabranch.ingest.schema_registry import with_schemas
from anabranch.lake.layout import load_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART_ROWS: Final = 250_000
"""Rows of one epoch, at most: some hundred MB in memory, and one to two seconds for an attempt to commit."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of a file: its number in the topic, its rows (all of them), how many were landed by this load, by
    decision, and the problems of these. ``skipped``: its content had landed before. ``error``: why it was refused."""

    name: str
    number: int = 0
    rows: int = 0
    landed: int = 0
    decisions: Counter[str] = field(default_factory=Counter, hash=False)
    problems: Counter[str] = field(default_factory=Counter, hash=False)
    skipped: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class LoadReport:
    topic: str
    files: tuple[FileReport, ...]

    @property
    def landed(self) -> int:
        return sum(file.landed for file in self.files)

    @property
    def decisions(self) -> dict[str, int]:
        total = sum((file.decisions for file in self.files), Counter[str]())
        return {name: total[name] for name in (LOADED, QUARANTINED, DUPLICATE)}

    @property
    def problems(self) -> Counter[str]:
        found = Counter[str]()
        for file in self.files:
            found = merge(found, file.problems)
        return found

    @property
    def refused(self) -> list[FileReport]:
        return [file for file in self.files if file.error]

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "landed": self.landed,
            **self.decisions,
            "problems": dict(self.problems.most_common()),
            "files": [
                {"name": f.name, "number": f.number, "rows": f.rows, "landed": f.landed, "skipped": f.skipped,
                 "error": f.error}
                for f in self.files
            ],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredReport:
    """``LoadReport.to_json``, for the process that has asked for the load."""

    report: Mapping[str, Any] = field(hash=False)


_LANDING: Final = "rows of it may have landed, and files before it have"
REPORT: Final = ControlFile("report of a load", StoredReport)
Progress = Callable[[str], None]
"""Called with a line of text: which file, and how far."""


def load(
    spark: SparkSession,
    settings: Settings,
    topic: Topic,
    named: Sequence[str],
    progress: Progress = lambda _: None,
    part_rows: int = PART_ROWS,
) -> LoadReport:
    """Load the files, folders and S3 addresses that are ``named``, in this order.

    Called again after a kill, or with the same files, it lands what hasn't landed: a file is known by its content. A
    file that can't be read is refused, and the others are loaded; the report says so. Raises BadInput LOAD_FILES,
    LOAD_MAPPING; TryAgain LOAD_RUNNING, STORE_UNREACHABLE (after an hour, or where waiting doesn't help), DISK_FULL;
    BrokenState LOADS_UNKNOWN.
    """
    check_loadable(topic)
    addresses = find_files(named, Patience(settings, topic.name, progress))
    with _only_load(settings, topic), _scratch(settings) as scratch:
        table = open_landing(settings, topic)
        epochs = FileEpochs(_session(spark), settings, with_schemas(settings, topic), table)
        reports = []
        for place, address in enumerate(addresses, 1):
            tell = partial(_tell, progress, f"{place} of {len(addresses)}, {address.name}")
            reports.append(_load_file(settings, topic, address, epochs, scratch, tell, part_rows))
    return LoadReport(topic.name, tuple(reports))


def check_loadable(topic: Topic) -> None:
    """Raises BadInput LOAD_MAPPING if the topic's records need what a row of a file doesn't have."""
    records = topic.records
    if not isinstance(records, Mapped):
        return
    parts = [("time", records.time), *(("id", part) for part in records.id_parts), ("subject", records.subject)]
    for part, where in [*parts, ("type", records.type and records.type.path)]:
        if where in (Record.KEY, Record.APPEND_TIME) or isinstance(where, Header):
            named = f"the record's header {where.name}" if isinstance(where, Header) else where
            raise BadInput(
                "LOAD_MAPPING",
                f"topic {topic.name}: {part} is {named}, and a row of a file has none of its own",
                state="nothing was loaded",
                next_step=f"map {part} to a field of the contract; or send the rows through the log: anabranch produce "
                f"records {topic.name} FILE",
                part=part,
            )


def _tell(progress: Progress, file: str, said: str) -> None:
    progress(f"{file}: {said}")


def _load_file(
    settings: Settings,
    topic: Topic,
    address: Address,
    epochs: FileEpochs,
    scratch: Path,
    tell: Callable[[str], None],
    part_rows: int,
) -> FileReport:
    with full_disk(scratch, address.name):
        folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        local = _local(address, folder, Patience(settings, topic.name, tell))
        with run_first(settings):  # not before: landing must not go slower while a store is waited for
            return _land_file(settings, topic, address, local, epochs, folder, tell, part_rows)
    except BadInput as error:
        if error.code != "FILE_UNREADABLE":
            raise
        tell(f"refused: {error.what}")
        return FileReport(address.name, error=error.what)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _land_file(
    settings: Settings,
    topic: Topic,
    address: Address,
    local: Path,
    epochs: FileEpochs,
    folder: Path,
    tell: Callable[[str], None],
    part_rows: int,
) -> FileReport:
    sha256 = _hash(address, local)
    epochs.table.update_incremental()
    loads = read_state(epochs.table, topic).loads
    if (known := finished_files(settings, topic.name, epochs.table, loads).get(sha256)) is not None:
        tell(f"has landed before as file {known.number}")
        return FileReport(address.name, known.number, known.rows, skipped=True)
    tell("reading it")
    with full_disk(folder.parent, address.name):
        prepared = prepare(address, local, topic, folder / "parts", part_rows)
    if _hash(address, local) != sha256:
        raise refused(address.name, "it was changed while it was read")
    if not prepared.rows:
        tell("it has no rows")
        return FileReport(address.name)
    file = LoadedFile(_number(loads, sha256), address.name, sha256, prepared.rows)
    begun = loads.open[file.number].next_row if file.number in loads.open else 0
    tell(f"{prepared.rows:,} rows" + (f", of which {begun:,} have landed before" if begun else ""))
    epochs.landed = _counting(tell, begun, prepared.rows)
    with full_disk(settings.home, address.name, _LANDING):
        decisions, problems = epochs.land(file, address.format, prepared, loads)
        record_file(settings, topic.name, file)
    return FileReport(address.name, file.number, file.rows, file.rows - begun, decisions, problems)


def _local(address: Address, folder: Path, patience: Patience) -> Path:
    if not address.remote:
        return Path(address.name)
    target = folder / "object"
    until_there(partial(copy_object, address.name, target), patience)
    return target


def _hash(address: Address, local: Path) -> str:
    try:
        return content_hash(local)
    except OSError as error:
        raise refused(address.name, f"it can't be read: {error}") from error


def _number(loads: Loads, sha256: str) -> int:
    return next((number for number, file in loads.open.items() if file.sha256 == sha256), loads.last + 1)


def _counting(tell: Callable[[str], None], begun: int, rows: int) -> Callable[[int], None]:
    done = begun

    def landed(count: int) -> None:
        nonlocal done
        done += count
        tell(f"{done:,} of {rows:,} rows have landed")

    return landed


def _only_load(settings: Settings, topic: Topic) -> AbstractContextManager[None]:
    return locked(load_lock(settings, topic.name), refusal=other_load(topic))


@contextmanager
def _scratch(settings: Settings) -> Iterator[Path]:
    """A folder in the engine's scratch folder: maintenance deletes it after a kill."""
    with full_disk(settings.home, "what is loaded", "nothing was loaded"):
        folder = Path(tempfile.mkdtemp(prefix="load-", dir=hold_scratch(settings)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _session(spark: SparkSession) -> SparkSession:
    from anabranch.ingest.landing.stream import STREAM_CONF

    own = spark.newSession()
    for key, value in STREAM_CONF.items():
        own.conf.set(key, value)
    return own
