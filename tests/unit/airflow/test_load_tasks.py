"""The DAG ``load``: its form, which files it may read, and what its note says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.airflow._load_tasks import allowed, outcome_note
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from support.parsed_dags import HEAVY, Parse

pytestmark = pytest.mark.unit


def test_the_form_and_the_steps(tmp_path: Path, parse: Parse) -> None:
    parsed = parse(tmp_path, project_root(), "load")
    assert HEAVY.isdisjoint(parsed["loaded"])
    assert (parsed["opened"], parsed["cpu"] < 1.0) == ([], True)
    (dag,) = parsed["dags"].values()
    assert dag["id"] == "load"
    assert dag["params"] == ["topic", "files"]
    assert sorted(dag["edges"]) == [["load", "outcome"], ["plan_load", "load"], ["plan_load", "outcome"]]
    assert "*loaded*" in dag["doc"]


def test_only_files_below_the_folder(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", load_folder=tmp_path / "data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "away").symlink_to("/etc")
    inside = [str(tmp_path / "data" / "a.csv"), str(tmp_path / "data")]
    assert allowed(settings, ["a.csv", ".", "s3://b/c"]) == [*inside, "s3://b/c"]
    wrong: list[Any] = [["../a.csv"], ["/etc/passwd"], ["away/passwd"], [], "a.csv", [5], None, [""]]
    for named in wrong:
        with pytest.raises(BadInput) as refused:
            allowed(settings, named)
        assert (refused.value.code, refused.value.fields["field"]) == ("LOAD_FILES", "files")


def test_the_note_names_each_problem_once() -> None:
    report = {
        "topic": "payments", "landed": 1200, "loaded": 1000, "quarantined": 150, "duplicate": 50,
        "problems": {"column cents is no integer": 150},
        "files": [{"skipped": True, "error": ""}, {"skipped": False, "error": "d.parquet: cut off"}],
    }  # fmt: skip
    assert outcome_note(report).splitlines() == [
        "payments: landed 1,200 rows of 2 files: 1,000 loaded, 150 quarantined, 50 duplicate.",
        "1 file had landed before.",
        "150 rows: column cents is no integer",
        "Not loaded: d.parquet: cut off",
    ]
