"""A process works on the project of its working directory, wherever the package lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.core import project_folder
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import current_project, project_root
from anabranch.core.settings import load_settings

pytestmark = pytest.mark.unit
MARK = "[tool.anabranch]\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As installed into an environment: the package lies in no checkout, and nothing is set."""
    monkeypatch.setattr(
        project_folder, "__file__", str(tmp_path / "lib" / "site-packages" / "anabranch" / "core" / "x.py")
    )
    for name in ("PROJECT", "HOME", "JARS", "LOAD_FOLDER", "KAFKA_PORT"):
        monkeypatch.delenv(f"ANABRANCH_{name}", raising=False)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "deep" / "inside").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(MARK)
    (folder / "anabranch.env").write_text("ANABRANCH_KAFKA_PORT=29999\n")
    return folder


def test_it_is_the_nearest_one_and_its_settings_count(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = shop / "deep"
    monkeypatch.chdir(inner / "inside")
    settings = load_settings()
    assert (settings.project, settings.home, settings.jars) == (shop, shop / ".anabranch", shop / ".jars")
    assert settings.kafka_port == 29999
    other = shop / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text(MARK)
    monkeypatch.chdir(other)
    assert load_settings().home == other / ".anabranch"
    assert load_settings().kafka_port != 29999


def test_one_that_the_environment_names_wins_with_its_settings(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.parent)
    monkeypatch.setenv("ANABRANCH_PROJECT", str(shop))
    settings = load_settings()
    assert (settings.home, settings.kafka_port) == (shop / ".anabranch", 29999)


@pytest.mark.parametrize("text", ["[tool.other]\n", "not toml", None])
def test_a_folder_without_the_mark_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    if text is not None:
        (folder / "pyproject.toml").write_text(text)
    monkeypatch.chdir(folder)
    assert current_project() is None
    for ask in (project_root, load_settings):
        with pytest.raises(BadInput) as refused:
            ask()
        assert refused.value.code == "NO_PROJECT"
        assert "anabranch init NAME" in refused.value.next_step


def test_a_reader_needs_a_home_and_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    assert load_settings().home == tmp_path / "home"


def test_a_working_directory_that_is_gone_is_in_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(BadInput) as refused:
        load_settings()
    assert refused.value.code == "NO_PROJECT"


def test_a_blank_folder_is_as_if_it_were_not_set(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a path it would be the working directory, and maintenance would delete there."""
    inside = shop / "deep" / "inside"
    monkeypatch.chdir(inside)
    for name in ("PROJECT", "HOME", "JARS", "LOAD_FOLDER"):
        monkeypatch.setenv(f"ANABRANCH_{name}", "")
    settings = load_settings()
    assert (settings.project, settings.home) == (shop, shop / ".anabranch")
    assert (settings.jars, settings.load_folder) == (shop / ".jars", shop / "data")
    (shop / "anabranch.env").write_text(f"ANABRANCH_HOME={shop}/far\nANABRANCH_JARS=\n")
    assert (load_settings().home, load_settings().jars) == (shop / "far", shop / ".jars")
