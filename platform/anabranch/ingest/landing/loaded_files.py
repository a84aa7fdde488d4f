"""Files that were loaded into a landing table: their coordinates, how far each of them is, and which are finished.

The rows of a topic's file n are those of the partition ``-n``, a row's number (from 0) is its offset, so they can't
meet the coordinates of the log (ADR 0042). How far a file is, is said by the table's newest commit alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import BrokenState, root_cause
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.ingest.landing.table.schema import LOADED, VALID
from anabranch.lake import commit_history
from anabranch.lake.layout import loaded_files

LOADS: Final = "loads"
"""Key in the metadata of every landing commit after the first load: ``Loads``."""
FILE: Final = "file"
"""Key in the metadata of an epoch with rows of a file: the ``LoadedFile``, and its first row and the one after the
last."""
LANDED_FILES: Final = """
select -"partition", count(*), count(distinct "offset"), min("offset"), max("offset"),
    count(*) filter (decision = 'loaded'), count(*) filter (decision = 'quarantined'),
    count(*) filter (decision = 'duplicate')
from rows where "partition" < 0 and released_from is null group by 1 order by 1
"""
"""By file: rows, distinct rows, the first, the last, and the number by decision."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that hasn't landed completely: the hash of its content, and the next row to land."""

    sha256: str
    next_row: int


@dataclass(frozen=True, slots=True)
class Loads:
    """``last``: the highest number of a file. ``rows``: of all files. ``open``: the unfinished files by number."""

    last: int = 0
    rows: int = 0
    open: Mapping[int, OpenFile] = field(default_factory=dict, hash=False)

    @staticmethod
    def of(extra: Mapping[str, Any]) -> Loads:
        """From the metadata of a landing commit."""
        said = extra.get(LOADS, {})
        unfinished = {int(number): OpenFile(*each) for number, each in said.get("open", {}).items()}
        return Loads(int(said.get("last", 0)), int(said.get("rows", 0)), unfinished)

    def note(self) -> dict[str, Any]:
        """The entry that each landing commit repeats; empty before the first load."""
        if not self.last:
            return {}
        unfinished = {str(number): [each.sha256, each.next_row] for number, each in self.open.items()}
        return {LOADS: {"last": self.last, "rows": self.rows, "open": unfinished}}

    def after(self, file: LoadedFile, until: int) -> Loads:
        """When the rows of ``file`` before ``until`` have landed."""
        begun = self.open[file.number].next_row if file.number in self.open else 0
        unfinished = {**self.open, file.number: OpenFile(file.sha256, until)}
        if until >= file.rows:
            del unfinished[file.number]
        return Loads(max(self.last, file.number), self.rows + until - begun, unfinished)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file by its number in the topic: its name when it was loaded, and the hash and the rows of its content."""

    number: int
    name: str
    sha256: str
    rows: int

    @property
    def partition(self) -> int:
        return -self.number


LEDGER: Final = ControlFile("record of a loaded file", LoadedFile)


def finished_files(settings: Settings, topic: str, table: DeltaTable, loads: Loads) -> dict[str, LoadedFile]:
    """The files that have landed completely, by the hash of their content.

    A record that is missing (a kill after the last commit of its file, a backup) is written again from that commit. One
    of a file that the table doesn't have (it was restored, or made anew) is deleted, so that the file can be loaded.
    The caller holds the lock of loads. Raises BrokenState LOADS_UNKNOWN if a commit isn't kept any more.
    """
    found = _recorded(settings, topic)
    for file in [file for file in found.values() if file.number > loads.last or file.number in loads.open]:
        path = _record_path(settings, topic, file)
        storage_of(path).remove(path)
        del found[file.sha256]
    wanted = set(range(1, loads.last + 1)) - set(loads.open) - {file.number for file in found.values()}
    if wanted:
        for file in _from_commits(table, wanted):
            record_file(settings, topic, file)
            found[file.sha256] = file
            wanted.discard(file.number)
    if wanted:
        raise BrokenState(
            "LOADS_UNKNOWN",
            f"{topic}: which content the loaded files {sorted(wanted)} had is recorded neither in "
            f"{loaded_files(settings, topic)} nor in a commit that is kept",
            state="nothing was loaded: one of these files could be among those that were named",
            next_step="restore that folder from a backup",
            files=sorted(wanted),
        )
    return found


def names_of_files(settings: Settings, topic: str, table: DeltaTable, numbers: set[int]) -> dict[int, LoadedFile]:
    """The files with these numbers, as far as they are known."""
    found = {file.number: file for file in _recorded(settings, topic).values()}
    if not numbers <= found.keys():
        found |= {file.number: file for file in _from_commits(table, numbers - found.keys())}
    return found


def record_file(settings: Settings, topic: str, file: LoadedFile) -> None:
    """Record a file that has landed completely. Idempotent."""
    LEDGER.create(_record_path(settings, topic, file), file)


def _record_path(settings: Settings, topic: str, file: LoadedFile) -> Path:
    return loaded_files(settings, topic) / f"{file.sha256}.json"


def _recorded(settings: Settings, topic: str) -> dict[str, LoadedFile]:
    folder = loaded_files(settings, topic)
    try:
        found = [LEDGER.read(path) for path in listed(folder, "[0-9a-f]*.json")]
    except (OSError, ValueError) as error:
        raise BrokenState(
            "LOADS_UNKNOWN",
            f"{topic}: a record of a loaded file can't be read: {root_cause(error)}",
            state="nothing was changed",
            next_step=f"delete it: it is written again from the commit of its file; or restore {folder} from a backup",
        ) from error
    return {file.sha256: file for file in found if file is not None}


def _from_commits(table: DeltaTable, numbers: set[int]) -> Iterator[LoadedFile]:
    left = set(numbers)
    for committed in commit_history(table):
        said = committed.note.extra.get(FILE)
        if said is not None and said["number"] in left:
            left.discard(said["number"])
            yield LoadedFile(*(said[name] for name in ("number", "name", "sha256", "rows")))
        if not left:
            return


def file_note(file: LoadedFile, first: int, until: int) -> dict[str, Any]:
    """The entry for the metadata of an epoch with these rows of the file."""
    return {FILE: {**asdict(file), "from": first, "to": until}}


def as_loaded(rows: pa.Table) -> pa.Table:
    """Rows with what landing decides about those of files: a valid one is loaded, and neither late nor on time."""
    mine = pc.and_(pc.less(rows["partition"], 0), pc.equal(rows["decision"], VALID))
    for name, value in (("decision", LOADED), ("late", None)):
        kind = rows.schema.field(name).type
        column = pc.if_else(mine, pa.scalar(value, kind), rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows


def wrong_rows(loads: Loads, landed: Mapping[int, Sequence[Any]]) -> Iterator[tuple[int, str]]:
    """What is wrong with the rows of the files, by number. ``landed``: what LANDED_FILES returns, by number."""
    for number, (count, distinct, first, last, *_) in sorted(landed.items()):
        if count != distinct:
            yield number, f"{count - distinct} rows were landed more than once"
        if distinct != last - first + 1 or first != 0:
            yield number, f"{last + 1 - distinct} rows before row {last} are missing"
        if number in loads.open and loads.open[number].next_row != last + 1:
            yield number, f"its rows end at {last}; by the newest commit {loads.open[number].next_row} is the next one"
    for number in sorted(set(range(1, loads.last + 1)) - landed.keys()):
        yield number, "none of its rows is in the table"
    total = sum(count for count, *_ in landed.values())
    if total != loads.rows:
        yield loads.last, f"the files have {total:,} rows, by the newest commit {loads.rows:,}"
