"""Control files: what is written is read again, older formats are upgraded, newer ones are refused."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from threading import Thread

import pytest
from anabranch.certify._run_checks import CheckResult
from anabranch.certify.late_changes import LateChanges
from anabranch.certify.verdict import VERDICT, Verdict
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import CONTROL, ControlRequest
from anabranch.compute.batch.manifest import MANIFEST, Build
from anabranch.core.control_file import ControlFile, renamed
from anabranch.core.errors import BrokenState
from anabranch.core.formats import package_version
from anabranch.core.storage import storage_of
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import StagedFile
from support.our_packages import inside, modules

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 2)
CUT = Cut({"flights": Position(3, {0: 5, 11: 7})})


@dataclass(frozen=True)
class Counted:
    day: date
    of: Mapping[str, int] = field(hash=False)


FIRST = ControlFile("count", Counted)
NEWER = ControlFile("count", Counted, (renamed({"on": "day"}),))


def test_a_value_is_read_as_it_was_written(place: Path) -> None:
    file, value = place / "a" / "count.json", Counted(DAY, {"x": 1})
    assert FIRST.read(file) is None
    assert FIRST.read(FIRST.write(file, value)) == value
    head = {"kind": "count", "format": 1, "written_by": package_version()}
    assert json.loads(storage_of(file).read(file)) == {**head, "day": "2013-01-02", "of": {"x": 1}}


def test_an_older_format_is_upgraded_while_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "count.json"
    for text in ('{"on": "2013-01-02", "of": {"x": 1}}', '{"format": 1, "on": "2013-01-02", "of": {"x": 1}}'):
        file.write_text(text)
        assert NEWER.read(file) == Counted(DAY, {"x": 1})
    NEWER.write(file, Counted(DAY, {}))
    assert json.loads(file.read_text())["format"] == 2


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    file = NEWER.write(tmp_path / "count.json", Counted(DAY, {}))
    with pytest.raises(BrokenState, match=f"install anabranch {package_version()}, or") as error:
        FIRST.read(file)
    assert (error.value.code, error.value.fields["format"]) == ("FORMAT_NEWER", 2)
    file.write_text('{"kind": "count", "format": 2}')
    with pytest.raises(BrokenState, match="install the version of Anabranch that wrote it"):
        FIRST.read(file)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"of": {}}', '{"format": 2, "day": "no day", "of": {}}', '{"format": "2"}', '{"format": 0}',
     '{"format": 1, "of": {"x": "many"}, "on": "2013-01-02"}'],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_and_never_a_value(tmp_path: Path, text: str) -> None:
    file = tmp_path / "count.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"\S"):
        NEWER.read(file)


def test_a_field_that_would_be_hidden_is_refused_when_it_is_declared() -> None:
    @dataclass(frozen=True)
    class Hidden:
        format: str

    with pytest.raises(TypeError, match="format"):
        ControlFile("hidden", Hidden)


def test_of_two_who_create_a_file_the_first_one_wins(place: Path) -> None:
    file = place / "below" / "count.json"
    assert FIRST.create(file, Counted(DAY, {"a": 1}))
    assert not FIRST.create(file, Counted(DAY, {"b": 2}))
    assert FIRST.read(file) == Counted(DAY, {"a": 1})
    assert FIRST.stored_format(file) == 1


def test_of_concurrent_changes_none_is_lost(place: Path) -> None:
    file = place / "count.json"

    def add(name: str) -> None:
        def one_more(known: Counted | None) -> Counted:
            of = known.of if known else {}
            return Counted(DAY, {**of, name: of.get(name, 0) + 1})

        for _ in range(20):
            FIRST.change(file, one_more)

    threads = [Thread(target=add, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = FIRST.current(file)
    assert found is not None
    assert found.of == {"a": 20, "b": 20}


def test_a_manifest_and_a_verdict_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = StagedFile("builds/r/part.parquet", 7, 1, {"partition_date": "2013-01-02", "other": None})
    build = Build("delays", 1, "r", "f", CUT, (DAY,), "{}", (file,), 1, 0.25)
    assert MANIFEST.read(MANIFEST.write(tmp_path / "m.json", build)) == build
    checks = (CheckResult("landing", "offsets_unique", "Each once.", 9, {None: 1, DAY: 2}),)
    verdict = Verdict("delays", 1, "r", "flights@3", 4, (DAY,), {DAY: "late"}, (LateChanges(DAY, 2, added=1),), checks)
    assert VERDICT.read(VERDICT.write(tmp_path / "v.json", verdict)) == verdict


def test_files_from_before_formats_had_numbers_are_read(tmp_path: Path) -> None:
    first = {"view": "delays", "version": 1, "run": "r", "certified_at": "flights@3", "speed_version": 4,
             "equal": ["2013-01-02"], "refused": {"2013-01-03": "red"}, "late_changes": [], "report": "", "whole": None,
             "created": "2026-11-24T10:00:00+00:00"}  # fmt: skip
    check = {"table": "t", "check": "c", "says": "s", "rows": 1, "offending": [[None, 1]], "error": ""}
    for checks, results in ((3, ()), ([check], (CheckResult("t", "c", "s", 1, {None: 1}),))):
        verdict = VERDICT.from_text(json.dumps({**first, "checks": checks}), tmp_path)
        assert (verdict.cut, verdict.results, verdict.refused) == ("flights@3", results, {date(2013, 1, 3): "red"})
    text = '{"share": 0.5, "speed": 0.0, "cancelled_by": "bert"}'
    assert CONTROL.from_text(text, tmp_path) == ControlRequest(Pace(0.5), "bert")


OTHER_PEOPLES = {
    "demo/_shop_sender.py", "contracts/model/contract.py", "core/old_names.py", "ingest/landing/id_index.py",
    "lake/streams/stream_checkpoint.py",
    "lake/log/version_checksum.py", "operate/backup/_backup_folder.py", "operate/doctor/_checksums.py",
    "operate/doctor/_landing_consistency.py", "operate/jobs/_landed_events.py", "operate/maintenance/_log_retention.py",
    "testing/_saved_counterexample.py",
}  # fmt: skip
"""Files of Delta, Spark, Airflow and authors; and those with a format of their own: the index of ids, backups."""


def test_nobody_else_parses_a_file_of_the_home() -> None:
    def parses(tree: ast.Module) -> bool:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        loads = [call for call in calls if ast.unparse(call.func) in ("json.loads", "json.load")]
        return any(part in ast.unparse(call) for call in loads for part in ("read_text", ".open(", "storage_of"))

    found = {inside(file) for file in modules().values() if parses(ast.parse(file.read_text()))}
    assert found - OTHER_PEOPLES == set()
    assert OTHER_PEOPLES - found == set(), "what no longer does is struck off the list"
