"""A version that is declared while the streams run is noticed; a file that can't be read takes none of them down."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from anabranch.compute.speed import _definition_watcher
from anabranch.compute.speed._definition_watcher import DefinitionWatcher
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit
RUNNING = {"view/aircraft_now/v1", "view/departure_delays/v1", "view/route_day/v1"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(project_root() / "spark_jobs", tmp_path / "spark_jobs")
    return tmp_path


@pytest.fixture
def redeclared(project: Path) -> Iterator[DefinitionWatcher]:
    made = DefinitionWatcher(project)
    yield made
    made.stop()


def asked(redeclared: DefinitionWatcher, running: set[str] = RUNNING) -> bool:
    """Look until the declarations were read once more."""
    deadline, told, began = time.monotonic() + 60, False, False
    while not (began and redeclared._child is None):
        assert time.monotonic() < deadline
        told = redeclared.poll(running)
        began = began or redeclared._child is not None
        time.sleep(0.02)
    return told


def deploy(project: Path, text: str) -> Path:
    path = project / "spark_jobs" / "views" / "departure_delays_v2.py"
    path.write_text(text)
    return path


def second_version(project: Path) -> str:
    source = (project / "spark_jobs" / "views" / "departure_delays.py").read_text()
    return source.replace("version=1", "version=2")


def test_a_version_that_comes_and_goes_is_noticed(project: Path, redeclared: DefinitionWatcher) -> None:
    for _ in range(5):
        assert redeclared.poll(RUNNING) is False
    assert redeclared._child is None, "nothing changed, and yet it was read again"
    path = deploy(project, second_version(project))
    assert asked(redeclared)
    both = RUNNING | {"view/departure_delays/v2"}
    path.write_text(path.read_text() + "\n# no more than a comment\n")
    assert not asked(redeclared, both)
    path.unlink()
    assert asked(redeclared, both)


def test_a_file_that_is_no_python_is_told_and_nothing_is_stopped(
    project: Path, redeclared: DefinitionWatcher, caplog: pytest.LogCaptureFixture
) -> None:
    deploy(project, "def broken(:\n")
    assert not asked(redeclared)
    assert "SyntaxError" in caplog.text
    deploy(project, second_version(project))
    assert asked(redeclared), "mended, and not noticed"


def test_beside_a_file_that_is_no_python_others_are_noticed(project: Path, redeclared: DefinitionWatcher) -> None:
    views = project / "spark_jobs" / "views"
    (views / "route_day.py").write_text("def broken(:\n")
    deploy(project, second_version(project))
    assert asked(redeclared)
    (views / "aircraft_now.py").unlink()
    assert not asked(redeclared, RUNNING | {"view/departure_delays/v2"}), "nobody knows what that file declares"


def test_a_file_that_is_just_being_written_is_left_alone(project: Path, redeclared: DefinitionWatcher) -> None:
    for n in range(5):
        deploy(project, "x = 1\n" * (n + 1))
        assert redeclared.poll(RUNNING) is False
        assert redeclared._child is None


def test_of_some_views_only_these_are_compared(project: Path) -> None:
    some = DefinitionWatcher(project, ["route_day"])
    deploy(project, second_version(project))
    assert not asked(some, {"view/route_day/v1"})


def test_declarations_that_took_too_long_are_loaded_again(
    project: Path, redeclared: DefinitionWatcher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(project, second_version(project))
    with monkeypatch.context() as patched:
        patched.setattr(_definition_watcher, "_TIMEOUT", 0.0)
        assert not asked(redeclared)
    assert "timed out" in caplog.text
    assert asked(redeclared)


def test_a_file_that_is_deleted_while_they_are_listed_is_left_out(
    project: Path, redeclared: DefinitionWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = deploy(project, second_version(project)), Path.is_file

    def listed(file: Path) -> bool:
        found = real(file)
        if file == path:
            path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_file", listed)
    assert redeclared.poll(RUNNING) is False
    path.unlink(missing_ok=True)
    path.symlink_to(project / "nowhere")
    assert redeclared.poll(RUNNING) is False
