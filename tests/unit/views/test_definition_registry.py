"""A version stands for one definition, from the first time it is registered."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.errors import Conflict
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef
from anabranch.views import View, load_views
from anabranch.views.definition_registry import is_registered, record_path, write_definition

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
TEXT = """\
from anabranch.views import view
LIMIT = 15
@view(name="delayed", version=1, events="flight.departed", key="tailnum")
def delayed(departed):
    return departed.where(departed.dep_delay > LIMIT)
"""


def declare(folder: Path, text: str) -> View:
    folder.mkdir()
    (folder / "views.py").write_text(text)
    (found,) = load_views(folder, DECLARED)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home")


def test_a_definition_is_written_down_once(tmp_path: Path, settings: Settings) -> None:
    view = declare(tmp_path / "a", TEXT)
    assert not is_registered(settings, view)
    write_definition(settings, view)
    assert is_registered(settings, view)
    record = json.loads(record_path(VersionRef(settings, view.name, view.version)).read_text())
    assert record["fingerprint"] == view.fingerprint
    assert "LIMIT = 15" in record["definition"]
    write_definition(settings, view)
    assert [path.name for path in record_path(VersionRef(settings, view.name, view.version)).parent.iterdir()] == [
        "delayed.v1.json"
    ]


def test_another_definition_under_the_same_version_is_refused(tmp_path: Path, settings: Settings) -> None:
    write_definition(settings, declare(tmp_path / "a", TEXT))
    changed = declare(tmp_path / "b", TEXT.replace("LIMIT = 15", "LIMIT = 20"))
    for attempt in (is_registered, write_definition):
        with pytest.raises(Conflict) as caught:
            attempt(settings, changed)
        assert caught.value.code == "DEFINITION_CHANGED"
        assert caught.value.fields["view"] == "delayed"
        assert caught.value.fields["definition"] == 3
        assert f"{tmp_path / 'b' / 'views.py'}:3: delayed v1" in str(caught.value)
        assert "-LIMIT = 15" in str(caught.value)
        assert "+LIMIT = 20" in str(caught.value)
        assert "version=2" in caught.value.next_step


def test_the_next_version_may_be_another(tmp_path: Path, settings: Settings) -> None:
    write_definition(settings, declare(tmp_path / "a", TEXT))
    assert not is_registered(settings, declare(tmp_path / "b", TEXT.replace("version=1", "version=2")))


def test_of_two_that_register_at_once_one_wins_and_the_other_learns_it(tmp_path: Path, settings: Settings) -> None:
    views = [declare(tmp_path / f"v{n}", TEXT.replace("LIMIT = 15", f"LIMIT = {n}")) for n in range(8)]
    outcomes: list[str] = []

    def attempt(view: View) -> None:
        try:
            write_definition(settings, view)
            outcomes.append(view.fingerprint)
        except Conflict as error:
            outcomes.append(error.code)

    threads = [Thread(target=attempt, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = json.loads(record_path(VersionRef(settings, views[0].name, views[0].version)).read_text())
    assert sorted(outcomes) == sorted([record["fingerprint"], *["DEFINITION_CHANGED"] * 7])


def test_a_file_that_is_edited_under_a_running_process_is_still_known_as_it_was(
    tmp_path: Path, settings: Settings
) -> None:
    view = declare(tmp_path / "a", TEXT)
    (tmp_path / "a" / "views.py").write_text("# edited\n\n" + TEXT.replace("LIMIT = 15", "LIMIT = 20"))
    write_definition(settings, view)
    assert (
        "LIMIT = 15" in json.loads(record_path(VersionRef(settings, view.name, view.version)).read_text())["definition"]
    )
