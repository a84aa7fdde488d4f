"""A secret is written whole or not at all, and what a kill leaves of it is found and deleted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from anabranch.core.atomic_files import abandoned_drafts
from anabranch.core.settings import Settings
from anabranch.operate.maintenance import _orphans
from anabranch.operate.maintenance._report import Policy
from anabranch.operate.runtime.secret_files import exact_file, write_exact

pytestmark = pytest.mark.unit

KILLED = """
import os, signal, sys
from pathlib import Path
from anabranch.operate.runtime.secret_files import write_exact
sys.addaudithook(lambda event, _: os.kill(os.getpid(), signal.SIGKILL) if event == "os.rename" else None)
write_exact(Path(sys.argv[1]), "one")
"""
"""A process that is killed when the draft of its secret is written."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def kept(settings: Settings) -> list[str]:
    return sorted(path.name for path in (settings.home / "secrets").iterdir())


def made_old(settings: Settings) -> None:
    for path in (settings.home / "secrets").iterdir():
        os.utime(path, (time.time() - 7_200,) * 2)


def test_the_draft_of_a_killed_process_is_deleted(settings: Settings) -> None:
    path = exact_file(settings, "NAME")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(kept(settings)) == 1
    assert not path.exists()
    assert [*_orphans.drafts(settings, Policy(), plan=False)] == [], "it may have been killed a moment ago"
    made_old(settings)
    (action,) = _orphans.drafts(settings, Policy(), plan=False)
    assert (action.files, kept(settings)) == (1, [])


def test_a_draft_that_ends_with_no_number_of_a_process_belongs_to_none(settings: Settings) -> None:
    """As older releases named them: by the number of the process, then that of a thread."""
    draft = settings.home / "secrets" / f".name.{os.getpid()}.139872345678912"
    draft.parent.mkdir()
    draft.write_text("one")
    assert abandoned_drafts(settings.home / "secrets") == [draft]
    made_old(settings)
    (action,) = _orphans.drafts(settings, Policy(), plan=False)
    assert (action.files, kept(settings)) == (1, [])


def test_threads_that_write_one_secret_at_once_leave_it_whole(settings: Settings) -> None:
    path, texts = exact_file(settings, "NAME"), ["one" * 5_000, "another" * 5_000]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: write_exact(path, texts[number % 2]), range(200)))
    assert path.read_text() in texts
    assert kept(settings) == ["name"]
    assert path.stat().st_mode & 0o777 == 0o600
