"""Which files have landed, and how far: by the newest commit, with a record of each finished file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.landing.loaded_files import (
    LoadedFile,
    Loads,
    OpenFile,
    as_loaded,
    file_note,
    finished_files,
    record_file,
    wrong_rows,
)
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut
from anabranch.lake.layout import loaded_files
from deltalake import DeltaTable

pytestmark = pytest.mark.unit
ONE, TWO = LoadedFile(1, "a.csv", "a" * 64, 5), LoadedFile(2, "b.csv", "b" * 64, 3)


def test_how_far_a_file_is() -> None:
    begun = Loads().after(ONE, 2)
    assert begun == Loads(1, 2, {1: OpenFile("a" * 64, 2)})
    assert Loads.of(begun.note()) == begun
    done = begun.after(ONE, 5)
    assert (done, done.after(TWO, 3)) == (Loads(1, 5, {}), Loads(2, 8, {}))
    assert Loads().note() == {}


def table(settings: Settings, *notes: dict[str, object]) -> DeltaTable:
    uri = str(settings.lake / "landing" / "payments")
    made = commits.create(uri, pa.schema([("n", pa.int64())]), [], CommitMetadata("landing/payments", "create", Cut()))
    for number, note in enumerate(notes):
        commits.append(made, [], CommitMetadata("landing/payments", f"load:{number}", Cut(), extra=note))
    return made


def test_a_missing_record_is_written_from_its_commit(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    made = table(settings, file_note(ONE, 0, 5), file_note(TWO, 0, 3))
    loads = Loads(2, 8)
    assert finished_files(settings, "payments", made, loads) == {ONE.sha256: ONE, TWO.sha256: TWO}
    assert len(list(loaded_files(settings, "payments").iterdir())) == 2
    unfinished = Loads(2, 6, {2: OpenFile(TWO.sha256, 1)})
    (loaded_files(settings, "payments") / f"{TWO.sha256}.json").unlink()
    assert finished_files(settings, "payments", made, unfinished) == {ONE.sha256: ONE}


def test_a_file_that_the_table_does_not_have_can_be_loaded_again(tmp_path: Path) -> None:
    """The table was restored from before it was loaded, or made anew."""
    settings = Settings(home=tmp_path)
    made = table(settings)
    for loads in (Loads(), Loads(1, 2, {1: OpenFile(ONE.sha256, 2)})):
        record_file(settings, "payments", ONE)
        assert finished_files(settings, "payments", made, loads) == {}
        assert list(loaded_files(settings, "payments").iterdir()) == []


def test_what_is_unknown_stops_a_load(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    made = table(settings)
    with pytest.raises(BrokenState) as unknown:
        finished_files(settings, "payments", made, Loads(1, 5))
    assert (unknown.value.code, unknown.value.fields["files"]) == ("LOADS_UNKNOWN", [1])
    record_file(settings, "payments", ONE)
    assert finished_files(settings, "payments", made, Loads(1, 5)) == {ONE.sha256: ONE}
    (loaded_files(settings, "payments") / f"{ONE.sha256}.json").write_text("{")
    with pytest.raises(BrokenState, match="can't be read"):
        finished_files(settings, "payments", made, Loads(1, 5))


def test_only_valid_rows_of_files_are_loaded() -> None:
    rows = pa.table(
        {
            "partition": pa.array([0, -1, -1, -2], pa.int32()),
            "decision": ["valid", "valid", "duplicate", "quarantined"],
            "late": [True, True, None, None],
        }
    )
    found = as_loaded(rows)
    assert found["decision"].to_pylist() == ["valid", "loaded", "duplicate", "quarantined"]
    assert found["late"].to_pylist() == [True, None, None, None]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((5, 5, 0, 4), []),
        ((6, 5, 0, 4), ["1 rows were landed more than once", "the files have 6 rows"]),
        ((4, 4, 0, 4), ["1 rows before row 4 are missing", "the files have 4 rows"]),
        ((4, 4, 1, 4), ["1 rows before row 4 are missing", "the files have 4 rows"]),
        ((4, 4, 0, 3), ["the files have 4 rows, by the newest commit 5"]),
    ],
)
def test_rows_of_a_file_are_proven(counts: tuple[int, ...], words: list[str]) -> None:
    found = [what for _, what in wrong_rows(Loads(1, 5), {1: counts})]
    assert len(found) == len(words)
    assert all(word in what for word, what in zip(words, found, strict=True))
    assert [n for n, _ in wrong_rows(Loads(2, 5), {1: (5, 5, 0, 4)})] == [2], "a file without any row"
    assert list(wrong_rows(Loads(1, 2, {1: OpenFile("a", 3)}), {1: (2, 2, 0, 1)}))
