"""The DAG files: each parsed in a process of its own, in under a second, without a connection or a heavy import."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.project_folder import project_root
from support.parsed_dags import HEAVY, Parse

pytestmark = pytest.mark.unit
PLANS = {"reprocess": "plan", "repair": "plan_repair"}


@pytest.fixture(scope="module", params=PLANS)
def file(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory, parse: Parse, file: str) -> dict[str, Any]:
    return parse(tmp_path_factory.mktemp("parse"), project_root(), file)


def test_it_is_parsed_in_under_a_second_without_a_connection(parsed: dict[str, Any]) -> None:
    assert parsed["cpu"] < 1.0
    assert parsed["opened"] == []
    assert HEAVY.isdisjoint(parsed["loaded"])


def test_each_view_with_partitions_has_its_dag(parsed: dict[str, Any], file: str) -> None:
    with_days = {f"{file}_departure_delays", f"{file}_route_day"}
    assert set(parsed["dags"]) - {"reprocess_aircraft_now"} == with_days
    plan = PLANS[file]
    for dag in (parsed["dags"][name] for name in with_days):
        assert dag["edges"] == [
            ["approve", "rebuild"],
            [plan, "approve"],
            [plan, "publish"],
            [plan, "rebuild"],
            ["rebuild", "publish"],
        ]
        assert (dag["catchup"], set(dag["retries"].values())) == (False, {3})
        assert dag["params"] == (["from", "to", "missing", "cut", "version"] if file == "reprocess" else [])


def test_a_kappa_view_is_certified_by_its_dag_and_replayed_before_that(parse: Parse, tmp_path: Path) -> None:
    dag = parse(tmp_path, project_root(), "reprocess")["dags"]["reprocess_aircraft_now"]
    way = ["plan", "approve", "replay", "replayed", "certify", "judge"]
    assert {(task, after) for task, after in itertools.pairwise(way)} <= {(task, down) for task, down in dag["edges"]}
    assert (dag["catchup"], dag["retries"]) == (False, dict.fromkeys(way, 3))
    assert dag["params"] == ["replay", "share", "version"]
    assert "none: a kappa view, one whole" in dag["doc"]
    assert "`anabranch replay start aircraft_now`" in dag["doc"]


def test_a_view_that_got_days_offers_no_version_of_the_other_kind(parse: Parse, tmp_path: Path) -> None:
    views = tmp_path / "project" / "spark_jobs" / "views"
    views.mkdir(parents=True)
    kappa = '@view(name="v", version=1, events=["a.b"], key=["k"])\ndef v(a):\n    "V."\n'
    (views / "v1.py").write_text(kappa)
    (views / "v2.py").write_text(kappa.replace("version=1", "version=2").replace('["k"]', '["k"], partition_by="k"'))
    dags = parse(tmp_path, tmp_path / "project", "reprocess")["dags"]
    assert {name: (dag["version"], dag["params"][0]) for name, dag in dags.items()} == {
        "reprocess_v": (2, "from"),
        "reprocess_v.v1": (1, "replay"),
    }


def test_its_page_tells_what_it_does(parsed: dict[str, Any], file: str) -> None:
    doc = parsed["dags"][f"{file}_departure_delays"]["doc"]
    if file == "repair":
        assert "`anabranch views dirty departure_delays`" in doc
        assert "`anabranch reprocess departure_delays --missing`" in doc
        return
    assert "Flights, flights delayed over 15 minutes" in doc
    assert "`flight.departed`" in doc
    assert "`window_start`" in doc


def test_a_view_that_is_no_python_takes_no_other_dag_away(tmp_path: Path, parse: Parse, file: str) -> None:
    views = tmp_path / "project" / "spark_jobs" / "views"
    views.mkdir(parents=True)
    for source in (project_root() / "spark_jobs" / "views").glob("*.py"):
        (views / source.name).write_text(source.read_text())
    (views / "broken.py").write_text("def broken(:\n")
    (views / "hostile.py").write_text("raise SystemExit('an author\\'s code ran in the DAG processor')\n")
    assert len(parse(tmp_path, tmp_path / "project", file)["dags"]) == (3 if file == "reprocess" else 2)


def test_an_older_version_keeps_its_own_dag(tmp_path: Path, parse: Parse, file: str) -> None:
    """Else nobody would repair what most readers still get."""
    views = tmp_path / "project" / "spark_jobs" / "views"
    views.mkdir(parents=True)
    source = (project_root() / "spark_jobs" / "views" / "departure_delays.py").read_text()
    (views / "departure_delays.py").write_text(source)
    (views / "next.py").write_text(source.replace("version=1", "version=2"))
    dags = parse(tmp_path, tmp_path / "project", file)["dags"]
    assert set(dags) == {f"{file}_departure_delays", f"{file}_departure_delays.v1"}
    if file == "reprocess":
        assert {name: dag["version"] for name, dag in dags.items()} == {
            "reprocess_departure_delays": 1,
            "reprocess_departure_delays.v1": 1,
        }, "what readers have comes first: without a route the oldest version"
        return
    newest, older = (dags[f"repair_departure_delays{which}"]["doc"] for which in ("", ".v1"))
    assert ("views dirty departure_delays`" in newest, "views dirty departure_delays --version 1`" in older) == (
        True,
        True,
    ), "the command takes the newest one"
    assert ("reprocess departure_delays --version 2 --missing" in newest, "delays --missing" in older) == (
        True,
        True,
    ), "the command takes what readers have"


@pytest.mark.parametrize("name", [*PLANS, "migrate", "replay", "retire"])
def test_the_file_is_short(name: str) -> None:
    assert len((project_root() / "dags" / f"{name}.py").read_text().splitlines()) <= 60


def test_the_dag_of_migrations_builds_compares_asks_and_moves(tmp_path: Path, parse: Parse) -> None:
    parsed = parse(tmp_path, project_root(), "migrate")
    assert parsed["cpu"] < 1.0
    assert parsed["opened"] == []
    assert HEAVY.isdisjoint(parsed["loaded"])
    dag = parsed["dags"]["dag"]
    way = ["plan_migration", "level", "approve_build", "rebuild", "publish", "compare", "approve", "move"]
    assert {(task, after) for task, after in itertools.pairwise(way)} <= {(task, down) for task, down in dag["edges"]}
    assert (dag["id"], dag["catchup"]) == ("migrate", False)
    assert dag["retries"] == dict.fromkeys(way, 3), "an answer that Airflow lost would be a failure"
    assert dag["params"] == ["view", "why", "changed", "checks", "from", "to", "steps", "soak", "behind"]


def test_its_form_offers_views_with_several_versions(tmp_path: Path, parse: Parse) -> None:
    views = tmp_path / "project" / "spark_jobs" / "views"
    views.mkdir(parents=True)
    source = (project_root() / "spark_jobs" / "views" / "departure_delays.py").read_text()
    for name, text in {"a": source.replace('"departure_delays"', '"another"'), "b": source}.items():
        (views / f"{name}.py").write_text(text)
    assert parse(tmp_path, tmp_path / "project", "migrate")["dags"]["dag"]["views"] == ["another", "departure_delays"]
    (views / "next.py").write_text(source.replace("version=1", "version=2"))
    assert parse(tmp_path, tmp_path / "project", "migrate")["dags"]["dag"]["views"] == ["departure_delays"]
    # A retirement may be of any view, and begins with one that has a version to retire.
    assert parse(tmp_path, tmp_path / "project", "retire")["dags"]["dag"]["views"] == ["departure_delays", "another"]


def test_the_dag_of_retirements_asks_before_it_deletes(tmp_path: Path, parse: Parse) -> None:
    parsed = parse(tmp_path, project_root(), "retire")
    assert parsed["cpu"] < 1.0
    assert HEAVY.isdisjoint(parsed["loaded"])
    dag = parsed["dags"]["dag"]
    assert dag["edges"] == [["approve", "drop"], ["retire", "approve"], ["retire", "drop"]]
    assert (dag["id"], dag["catchup"], dag["params"]) == ("retire", False, ["view", "version", "why", "grace"])


def test_the_dag_of_replays_plans_asks_and_says_how_it_ended(tmp_path: Path, parse: Parse) -> None:
    parsed = parse(tmp_path, project_root(), "replay")
    assert parsed["cpu"] < 1.0
    assert parsed["opened"] == []
    assert HEAVY.isdisjoint(parsed["loaded"])
    dag = parsed["dags"]["dag"]
    way = ["plan_replay", "approve", "replay", "outcome"]
    assert {(task, after) for task, after in itertools.pairwise(way)} <= {(task, down) for task, down in dag["edges"]}
    assert (dag["id"], dag["catchup"]) == ("replay", False)
    assert dag["params"] == ["view", "from", "to", "version", "since", "until", "share", "speed", "source"]
    assert dag["views"] == ["aircraft_now", "departure_delays", "route_day"]
