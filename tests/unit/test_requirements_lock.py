"""requirements.lock: every package pinned, each of its files by a hash, installed by nothing but these."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit
ROOT = project_root()
PIN = re.compile(r"([a-z0-9][a-z0-9._-]*)==([A-Za-z0-9.+!]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def pins(text: str) -> dict[str, str]:
    """By name, and the whole text is made of them; comments stand at its top."""
    lines = text.splitlines(keepends=True)
    body = "".join(line for line in lines if not line.startswith("#"))
    assert PIN.sub("", body) == "", "each line is a pin with hashes, or one of its hashes"
    return {name: version for name, version, _ in PIN.findall(body)}


def test_every_package_is_pinned_with_hashes_and_no_line_names_a_host() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert len(pins(text)) == len(PIN.findall(text)) > 200, "none is there twice"
    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|--(?!hash=)\S+)", text, re.MULTILINE)


def test_what_is_asked_for_is_what_is_locked() -> None:
    locked = pins((ROOT / "requirements.lock").read_text())
    asked = re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)$", (ROOT / "requirements.in").read_text(), re.MULTILINE
    )
    assert len(asked) > 30
    assert {(name, v) for name, v in asked if locked.get(re.sub("[._-]+", "-", name.lower())) != v} == set()


def test_every_way_to_install_it_goes_by_hashes() -> None:
    """Setup and image call one script, and nothing else installs anything but what is in here."""
    for file in ("infra/setup.sh", "infra/Dockerfile"):
        text = (ROOT / file).read_text()
        assert "infra/install_lock.sh" in text
        others = re.findall(r"pip install (.*)", text)
        assert [line.split()[-4:] for line in others] == [["-e", ".", "-e", "platform/samples"]], file
        assert all("--no-deps --no-build-isolation" in line for line in others)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A checkout whose lock has two packages, found in a folder: pip reaches nothing else."""
    (tmp_path / "infra").mkdir()
    shutil.copy(ROOT / "infra" / "install_lock.sh", tmp_path / "infra")
    text = ""
    for name in ("setuptools", "other"):
        wheel = tmp_path / "wheels" / f"{name}-9.0-py3-none-any.whl"
        wheel.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr(f"{name}_of_test.py", "")
            file.writestr(f"{name}-9.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n")
            file.writestr(
                f"{name}-9.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            file.writestr(f"{name}-9.0.dist-info/RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        text += f"{name}==9.0 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{digest}\n"
    (tmp_path / "requirements.lock").write_text(text)
    return tmp_path


def install(checkout: Path) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(checkout / "wheels")}
    command = [str(checkout / "infra" / "install_lock.sh"), sys.executable, "--target", str(checkout / "site")]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


def test_the_script_installs_what_has_its_hash(small: Path) -> None:
    done = install(small)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (small / "site").glob("*.py")} == {"setuptools_of_test.py", "other_of_test.py"}


@pytest.mark.parametrize("name", ["setuptools", "other"])
def test_another_file_of_a_pinned_version_is_refused(name: str, small: Path) -> None:
    with zipfile.ZipFile(small / "wheels" / f"{name}-9.0-py3-none-any.whl", "a") as file:
        file.writestr("added.py", "")
    done = install(small)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (small / "site" / f"{name}_of_test.py").exists()


def test_a_pin_without_a_hash_is_refused(small: Path) -> None:
    lock = small / "requirements.lock"
    lock.write_text(re.sub(r"other==9.0.*", "other==9.0\n", lock.read_text(), flags=re.DOTALL))
    done = install(small)
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()
