"""The pytest plug-in costs a run that has no proofs nothing, and hands on what the command line says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from anabranch.testing import _options
from anabranch.testing._options import QUICK, USUAL, Effort, Options, effort

pytestmark = pytest.mark.unit
HEAVY = ("pyspark", "hypothesis", "pyarrow", "deltalake", "pydantic", "pandas")

PROVED = """
from anabranch.testing._options import current_options
def test_what_is_asked():
    print("ASKED", current_options())
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_proved.py").write_text(PROVED)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:hypothesispytest", *arguments, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_pytest_finds_it() -> None:
    (found,) = [point for point in entry_points(group="pytest11") if point.name == "anabranch"]
    assert found.value == "anabranch.testing.plugin"


def test_loading_it_imports_nothing_heavy() -> None:
    said = f"import sys, anabranch.testing.plugin; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_prove_is_a_function_however_often_it_is_imported() -> None:
    said = "from anabranch.testing import prove; from anabranch.testing import prove as again; print(prove is again)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_options_reach_the_proofs(tmp_path: Path) -> None:
    done = run(tmp_path, "--prove-quick", "--prove-runs=30", "--prove-seed=7", "--prove-replay=file.json")
    expected = Options(quick=True, runs=30, seed=7, replay=Path("file.json"))
    assert f"ASKED {expected}" in done.stdout, done.stdout + done.stderr
    assert run(tmp_path, "--prove-quick", "--prove-runs=30", "--prove-seed=7").returncode == 0


REPLAYED = """
import pytest
from anabranch.testing._options import note_replay
@pytest.mark.parametrize("view", {views})
def test_a_proof(view):
    note_replay(view, replayed=view == "delays v1")
"""


@pytest.mark.parametrize("processes", [[], ["-p", "xdist", "-n", "2"]], ids=["one", "two"])
@pytest.mark.parametrize(
    ("views", "said"),
    [(["delays v1", "routes v1"], None), (["delays v2", "routes v1"], "delays v2, routes v1"), (["x v1"] * 2, "x v1")],
)
def test_a_replay_that_no_proof_ran_fails(
    tmp_path: Path, views: list[str], said: str | None, processes: list[str]
) -> None:
    (tmp_path / "test_replayed.py").write_text(REPLAYED.format(views=views))
    done = run(tmp_path, "--prove-replay=delays-v1.json", *processes)
    assert done.returncode == (0 if said is None else 1), done.stdout + done.stderr
    assert ("so nothing was proven" in done.stdout) == (said is not None)
    assert f"Proofs of this run: {said}" in done.stdout or said is None


def test_a_replay_without_any_proof_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "--prove-replay=delays-v1.json")
    assert done.returncode == 1
    assert "Proofs of this run: none" in done.stdout


def test_without_options_nothing_is_asked(tmp_path: Path) -> None:
    assert f"ASKED {Options()}" in run(tmp_path).stdout


def test_a_random_seed_is_said_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "test_proved.py").write_text(PROVED)
    command = [sys.executable, "-m", "pytest", "--prove-seed=random", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "anabranch: proofs use seed " in done.stdout


def test_a_seed_that_is_no_number_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--prove-seed=seven")
    assert done.returncode == 4
    assert "--prove-seed" in done.stderr


@pytest.mark.parametrize(
    ("quick", "runs", "expected"),
    [
        (False, None, USUAL),
        (True, None, QUICK),
        (False, 1000, Effort(900, 100, USUAL.shrink_seconds)),
        (True, 1, Effort(1, 1, QUICK.shrink_seconds)),
    ],
)
def test_one_run_in_ten_goes_through_both_paths(quick: bool, runs: int | None, expected: Effort) -> None:
    assert effort(quick, runs) == expected


@pytest.fixture
def asked_nothing() -> Iterator[None]:
    before = _options.set_options(Options())
    yield
    _options.set_options(before)


def test_what_was_asked_before_comes_back(asked_nothing: None) -> None:
    first = Options(seed=1)
    assert _options.set_options(first) == Options()
    assert _options.set_options(Options(seed=2)) == first
