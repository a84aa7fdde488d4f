"""What readers have, read from files by a DAG's parsing, is what a read would follow; and the forms begin with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.apps.airflow._current_version import not_retired
from anabranch.apps.airflow.dags import project_views, reprocess_dags
from anabranch.apps.airflow.static_views import declared_views
from anabranch.change.migrate.migration_record import majority_version
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.serve import routes
from anabranch.serve.routes import set_route
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
ONE = "@view(name='delays', version={0}, events=['e'], key=['k'], partition_by='t')\ndef v{0}(e):\n    'No. {0}.'\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    views = tmp_path / "project" / "spark_jobs" / "views"
    views.mkdir(parents=True)
    (views / "delays.py").write_text("\n".join(map(ONE.format, (1, 2, 3))))
    monkeypatch.setenv("ANABRANCH_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    return Settings(home=tmp_path / "home", project=tmp_path / "project")


def current(settings: Settings) -> list[int]:
    found = not_retired(settings, declared_views(settings.views_folder)[VIEW])
    assert [view.version for view in found] == sorted((view.version for view in found), reverse=True)
    return [view.version for view in found if view.current]


def test_it_is_the_version_that_a_read_without_one_gets(settings: Settings) -> None:
    assert current(settings) == [1], "nothing can be read yet"
    for version in (2, 3):
        small_halves.start_speed(settings, 3, version=version)
    assert current(settings) == [2] == [majority_version(settings, VIEW)]
    for shares in ({2: 75, 3: 25}, {2: 50, 3: 50}, {2: 5, 3: 95}, {2: 100}):
        set_route(settings, VIEW, shares, by="anna", why="so")
        assert current(settings) == [majority_version(settings, VIEW)]


def test_forms_begin_with_it_and_retired_versions_have_none(settings: Settings) -> None:
    for version in (1, 2, 3):
        small_halves.start_speed(settings, 3, version=version)
    set_route(settings, VIEW, {2: 100}, by="anna", why="so")
    dags = {dag.dag_id: dag for dag in reprocess_dags(project_views())}
    assert set(dags) == {"reprocess_delays", "reprocess_delays.v1", "reprocess_delays.v2"}
    form = dags["reprocess_delays"].params.get_param("version")
    assert (form.value, form.schema["enum"]) == (2, [2, 3, 1])
    assert "Most readers have v2." in str(form.description)
    assert "No. 2." in str(dags["reprocess_delays"].doc_md)
    assert dags["reprocess_delays.v1"].params["version"] == 1, "the DAG of a version is for that version"
    set_route(settings, VIEW, {2: 100}, by="anna", why="v1 is of no use", retired=[1])
    dags = {dag.dag_id: dag for dag in reprocess_dags(project_views())}
    assert set(dags) == {"reprocess_delays", "reprocess_delays.v2"}
    assert dags["reprocess_delays"].params.get_param("version").schema["enum"] == [2, 3]


def test_a_route_that_cant_be_read_takes_no_dag_away(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    small_halves.start_speed(settings, 3)
    set_route(settings, VIEW, {1: 100}, by="anna", why="so")
    newest = max((settings.lake / "routes" / VIEW / "_delta_log").glob("*.json"))
    newest.write_text("{ no json")
    assert current(settings) == [1]
    assert "the route of delays can't be read" in caplog.text


def test_a_version_that_was_retired_before_a_route_that_cant_be_read_stays_retired(settings: Settings) -> None:
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    set_route(settings, VIEW, {2: 100}, by="anna", why="so", retired=[1])
    set_route(settings, VIEW, {2: 100}, by="anna", why="again")
    max((settings.lake / "routes" / VIEW / "_delta_log").glob("*.json")).write_text("{ no json")
    assert current(settings) == [2]
    assert {dag.dag_id for dag in reprocess_dags(project_views())} == {"reprocess_delays", "reprocess_delays.v2"}


@pytest.mark.parametrize("content", ["", "{ no json"])
def test_no_run_is_planned_for_any_version_while_no_route_can_be_read(settings: Settings, content: str) -> None:
    """Its DAG is there, because parsing can't know; the run is refused before it changes anything."""
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    set_route(settings, VIEW, {2: 100}, by="anna", why="so", retired=[1])
    max((settings.lake / "routes" / VIEW / "_delta_log").glob("*.json")).write_text(content)
    assert "reprocess_delays.v1" in {dag.dag_id for dag in reprocess_dags(project_views())}
    for version in (1, 2):
        view = View(VIEW, version, ("flight.departed",), ("t",), lambda rows: rows, partition_by="t")
        with pytest.raises(BrokenState, match="routes"):
            make_plan(ViewHandle(settings, view, None), ReprocessRequest((DAYS[0],), {}, explicit=True))  # type: ignore[arg-type]
