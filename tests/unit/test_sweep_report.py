"""What a sweep has run is kept from run to run, by a real pytest: nothing is left out unseen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root
from support.checkout import commit, today
from support.sweep_report import Kept, Result, page, read, write

pytestmark = pytest.mark.unit
TESTS = '''
import os
import pytest

def test_good(): pass

@pytest.mark.parametrize("what", ["a|b", "c"])
def test_each(what): assert what != "c" or "GOOD" in os.environ, "it isn't"

@pytest.fixture
def needs(): pytest.skip("no clock here") if "GOOD" not in os.environ else None

def test_needs(needs): pass
'''  # fmt: skip
OTHER = "import os\ndef test_other(): assert 'DIES' not in os.environ or os._exit(3)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_long.py").write_text(TESTS)
    (tmp_path / "tests" / "test_other.py").write_text(OTHER)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    return tmp_path


def own_plugins() -> dict[str, str]:
    """Those of other distributions take two seconds of each start."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def swept(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, Kept]:
    """The exit code of a run, what it said, and what is kept then."""
    plugin = ["-q", "-p", "support.sweep_report", "-p", "no:cacheprovider", "--sweep-report", "sweep.md"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *(["-p", "xdist"] if "-n" in arguments else []), *arguments],
        cwd=folder, capture_output=True, text=True, check=False, env={**own_plugins(), **environment},
    )  # fmt: skip
    return done.returncode, done.stdout, read(folder / "sweep.jsonl")


def results(kept: Kept) -> dict[str, str]:
    return {test.partition("::")[2]: each.result for test, each in kept.results.items()}


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["alone", "workers"])
def test_parts_make_a_whole_and_more_runs_what_has_not_passed(folder: Path, workers: tuple[str, ...]) -> None:
    assert swept(folder, "--collect-only")[2].missing[0] == "tests/test_long.py::test_each[a|b]"
    assert "**0 of 5 tests have passed: 0 failed, 0 skipped, 5 without a" in (folder / "sweep.md").read_text()
    code, said, kept = swept(folder, "tests/test_other.py", *workers)
    assert (code, results(kept)) == (0, {"test_other": "passed"})
    code, said, kept = swept(folder, *workers)
    first = {"test_good": "passed", "test_each[a|b]": "passed", "test_each[c]": "failed", "test_needs": "skipped"}
    assert (code, results(kept)) == (1, {**first, "test_other": "passed"})
    assert "no clock here" in said.partition("the sweep isn't whole")[2]
    text = (folder / "sweep.md").read_text()
    assert "**3 of 5 tests have passed: 1 failed, 1 skipped, 0 without a result.**" in text
    assert "- **skipped**: `tests/test_long.py::test_needs`: Skipped: no clock here\n" in text
    assert re.search(rf"\| `test_each\[a\\\|b\]` \| passed \| [0-9.]+ \| {today()} \| {re.escape(commit())} \|", text)
    code, said, kept = swept(folder, "--sweep-more", *workers, GOOD="1")
    assert (code, set(results(kept).values())) == (0, {"passed"})
    assert "2 passed" in said
    assert swept(folder, "--sweep-more", *workers)[0] == 0, "nothing is left"
    (folder / "tests" / "test_other.py").write_text("def test_renamed(): pass\n")
    code, said, kept = swept(folder, "--sweep-more", *workers)
    assert (code, {*results(kept)}) == (0, {*first, "test_renamed"}), "what has gone doesn't count as passed"
    assert kept.known == kept.results.keys()


def test_make_sweep_gives_its_options_as_pytest_takes_them(folder: Path) -> None:
    """With a blank for the "=", pytest takes the report for what is to be tested, and knows no option of ours."""
    (given,) = re.findall(r"(--sweep-report.*?) \$\(", (project_root() / "Makefile").read_text())
    (folder / "docs").mkdir()
    (folder / "docs" / "sweep-report.md").touch()  # of a run before
    (folder / "tests" / "conftest.py").write_text('pytest_plugins = ["support.sweep_report"]')
    plugin = ["-q", "-p", "no:cacheprovider", "--collect-only", *given.split()]
    subprocess.run([sys.executable, "-m", "pytest", *plugin], cwd=folder, env=own_plugins(), check=True)
    assert len(read(folder / "docs" / "sweep-report.jsonl").missing) == 5


def test_a_skip_alone_fails_the_sweep(folder: Path) -> None:
    code, said, _ = swept(folder, "tests/test_long.py::test_needs")
    assert code == 1
    assert "test_needs: Skipped: no clock here" in said.partition("the sweep isn't whole")[2]


def test_what_was_never_run_is_said_and_what_has_gone_is_forgotten(folder: Path) -> None:
    code, _, kept = swept(folder, "-n", "1", "-k", "other or good", DIES="1")
    assert (code, results(kept)["test_other"]) == (1, "failed"), "its worker has died"
    (folder / "tests" / "test_other.py").unlink()
    report = folder / "sweep.md"
    _, _, kept = swept(folder, "-k", "test_good")
    assert {*results(kept)} == {"test_good", "test_other"}, "that was a part"
    _, _, kept = swept(folder)
    assert {*results(kept)} == {"test_good", "test_each[a|b]", "test_each[c]", "test_needs"}
    kept = Kept({test: each for test, each in kept.results.items() if test.endswith("good")})
    kept.collected(["tests/test_long.py::test_good", "tests/test_long.py::test_needs"], whole=False)
    write(report, kept)
    assert read(report.with_suffix(".jsonl")) == kept
    assert "0 skipped, 1 without a result.**" in report.read_text()
    assert "## Without a result\n\n- tests/test_long.py: 1\n" in report.read_text()


def test_each_day_and_commit_is_named() -> None:
    made = [Result(f"a.py::t{n}", "passed", 60.0, f"2026-11-2{n}", f"abc{n}+") for n in (1, 2)]
    text = page(Kept({each.test: each for each in made}, {each.test for each in made}))
    assert "- 2026-11-21, commit abc1+: 1 tests\n- 2026-11-22, commit abc2+: 1 tests\n" in text
    assert "Together 2 minutes of tests." in text


def test_only_reports_may_differ_from_the_commit(tmp_path: Path) -> None:
    def git(*command: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True)  # noqa: S607

    git("init", "-q")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "sweep-report.md").write_text("1")
    (tmp_path / "code.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "first")
    assert re.fullmatch("[0-9a-f]{7,}", commit(tmp_path))
    (tmp_path / "docs" / "sweep-report.md").write_text("2")
    (tmp_path / "docs" / "crash-report.jsonl").write_text("2")
    assert not commit(tmp_path).endswith("+")
    (tmp_path / "code.py").write_text("2")
    assert commit(tmp_path).endswith("+")
