"""Of two who change an object at once none is lost, and none that slept overwrites what came meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from anabranch.core.atomic_files import abandoned_drafts
from anabranch.core.control_objects import change, current, put, remove
from anabranch.core.storage import DISK, storage_of
from support.object_store import Faults, object_store

pytestmark = pytest.mark.unit
ADD = """
import sys
from pathlib import Path
from anabranch.core.control_objects import change
for _ in range(100):
    change(Path(sys.argv[1]), lambda text: str(int(text or 0) + 1))
"""


def test_a_state_follows_the_one_that_was_read(place: Path) -> None:
    path = place / "below" / "object"
    assert current(path) == (0, None)
    assert put(path, 0, "one")
    assert not put(path, 0, "another one")
    assert current(path) == (1, "one")
    assert change(path, lambda text: f"{text}, two") == "one, two"
    assert current(path) == (2, "one, two")


def always(text: str) -> Callable[[str | None], str]:
    return lambda _: text


def test_who_slept_through_many_states_is_turned_away(place: Path) -> None:
    path = place / "object"
    number, _ = current(path)
    for text in "abc":
        change(path, always(text))
    assert not put(path, number, "the sleeper's")
    assert not put(path, number + 1, "the sleeper's")
    assert current(path) == (3, "c")


def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "object"
    each = [subprocess.Popen([sys.executable, "-c", ADD, str(path)]) for _ in range(3)]
    assert [process.wait(120) for process in each] == [0, 0, 0]
    assert current(path) == (300, "300")


@pytest.mark.parametrize("lost", [OSError("the server has gone"), FileExistsError("somebody has made it")])
def test_a_state_that_was_made_and_whose_answer_got_lost_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: OSError
) -> None:
    path, link = tmp_path / "object", os.link

    def unanswered(draft: Path, state: Path) -> None:
        link(draft, state)
        raise lost

    monkeypatch.setattr(os, "link", unanswered)
    assert change(path, lambda text: str(int(text or 0) + 1)) == "1"
    assert current(path) == (1, "1")


def test_of_answers_that_get_lost_none_is_a_change_that_is_lost_or_made_twice(tmp_path: Path) -> None:
    """Some of the changes are made, and some aren't, and each of their writers is told of a failure."""
    path, made, failed = tmp_path / "object", list[str](), list[str]()

    def add(name: str) -> None:
        try:
            change(path, lambda text: f"{text or ''} {name}")
        except OSError:
            failed.append(name)
        else:
            made.append(name)

    with object_store(tmp_path) as store:
        with store.failing(Faults(lost=0.25, refused=0.25)), ThreadPoolExecutor(3) as pool:
            list(pool.map(add, [f"c{number}" for number in range(60)]))
        found = (current(path)[1] or "").split()
    assert sorted(found) == sorted(made)
    assert len(made) + len(failed) == 60
    assert made
    assert failed


def test_a_draft_that_a_kill_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    put(tmp_path / "object", 0, "one")
    monkeypatch.setattr("anabranch.core.atomic_files.psutil.pid_exists", lambda _: False)
    assert len(abandoned_drafts(tmp_path)) == 1


def test_a_state_that_is_listed_and_can_not_be_read_is_not_taken_for_none(place: Path) -> None:
    path = place / "object"
    put(path, 0, "one")
    put(path, 1, "two")
    newest = place / "object.2"
    if storage_of(place) is DISK:
        newest.unlink()
        newest.symlink_to(place / "lost")
        with pytest.raises(FileNotFoundError):
            current(path)
        with pytest.raises(FileNotFoundError):
            change(path, lambda text: f"{text}, three")
    storage_of(place).remove(newest)
    assert current(path) == (1, "one")


def test_an_object_that_is_removed_and_made_again_while_it_is_read_has_its_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, names = tmp_path / "object", type(DISK).names
    put(path, 0, "one")
    put(path, 1, "two")
    calls = list[Path]()

    def behind_the_list(disk: object, folder: Path) -> list[str]:
        found = names(DISK, folder)
        calls.append(folder)
        if len(calls) == 1:
            remove(path)
            put(path, 0, "new")
        return found

    monkeypatch.setattr(type(DISK), "names", behind_the_list)
    assert current(path) == (1, "new")


def test_what_is_removed_begins_anew(place: Path) -> None:
    path = place / "object"
    put(path, 0, "one")
    put(place / "object.other", 0, "stays")
    remove(path)
    assert current(path) == (0, None)
    assert current(place / "object.other") == (1, "stays")
    assert not [name for name in storage_of(place).names(place) if name.startswith(".")]
