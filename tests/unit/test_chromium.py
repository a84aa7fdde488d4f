"""The script that gets a browser for the tests: never in vain, and never without a word."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit
SCRIPT = project_root() / "infra" / "chromium.sh"
INSTALLS = """case "$*" in *chromium*) new="${0%/*}/chromium"; echo "#!/bin/sh" > "$new"; chmod +x "$new" ;; esac"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH of its own: what the script and its stand-ins need, and no browser."""
    for name in ("env", "chmod", "true"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    return tmp_path


def stand_in(programs: Path, name: str, does: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{does}\n")
    (programs / name).chmod(0o755)


def run(programs: Path) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("bash") or "bash", str(SCRIPT)]
    return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_where_a_browser_is_nothing_is_done(programs: Path, name: str) -> None:
    stand_in(programs, name, "exit 1")
    ran = run(programs)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("user", ["0", "1000"])
def test_who_may_install_packages_gets_one(programs: Path, user: str) -> None:
    stand_in(programs, "id", f"echo {user}")
    stand_in(programs, "sudo", 'shift; exec "$@"')
    stand_in(programs, "apt-get", INSTALLS)
    assert run(programs).returncode == 0
    assert (programs / "chromium").exists()


@pytest.mark.parametrize("apt", ["exit 100", "exit 0"])
def test_an_installation_that_brings_none_is_an_error(programs: Path, apt: str) -> None:
    """On a machine like CI's: there the tests must not be skipped."""
    stand_in(programs, "id", "echo 0")
    stand_in(programs, "apt-get", apt)
    ran = run(programs)
    assert ran.returncode == 1
    assert "apt-get install chromium" in ran.stderr


def test_who_may_not_is_told_what_to_do(programs: Path) -> None:
    stand_in(programs, "id", "echo 1000")
    stand_in(programs, "apt-get", "exit 100")
    stand_in(programs, "sudo", "exit 1")
    ran = run(programs)
    assert ran.returncode == 0
    assert "tests that click are skipped" in ran.stderr
    assert "apt-get install chromium" in ran.stderr
