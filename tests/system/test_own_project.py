"""A project of one's own, outside of any checkout: made by the installed wheel, and run as its README says."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root
from support.processes import eventually

pytestmark = pytest.mark.system

BUILT_FROM = ("platform", "pyproject.toml", "setup.py", "README.md", "LICENSE", "spark_jobs")
PORTS = ("KAFKA", "KAFKA_CONTROLLER", "POSTGRES", "AIRFLOW")


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that holds the wheel, a folder beside it, and what programs in it are given."""

    environment: Path
    folder: Path
    variables: dict[str, str]

    def run(self, *words: str, cwd: Path | None = None, fails: bool | None = False) -> str:
        program = str(self.environment / "bin" / words[0])
        ended = subprocess.run(
            [program, *words[1:]],
            cwd=cwd or self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = ended.stdout + ended.stderr
        assert fails is None or bool(ended.returncode) == fails, said
        return said

    @property
    def package(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages/anabranch")
        return found

    def files(self) -> set[str]:
        return {str(path) for path in self.package.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def installed(own_home: Path, free_port: Callable[[], int]) -> Installed:
    """The wheel is built and installed without the checkout. What it needs is taken from the environment of the tests:
    the same versions, without a download (the sweep installs everything)."""
    home = own_home / "of-a-user"
    source, environment, folder = home / "source", home / "environment", home / "work"
    for path in (source, folder):
        path.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in BUILT_FROM:
        path = project_root() / name
        shutil.copytree(path, source / name, ignore=ignored) if path.is_dir() else shutil.copy(path, source)
    wheels = home / "wheels"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *offline, "-w", str(wheels), str(source)], check=True)
    shutil.rmtree(source)
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "install", *offline, "--target", str(site), str(wheel)], check=True)
    (site / "needed.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    _programs(environment, "anabranch", "airflow", "pytest", "spark-submit", "find-spark-home", "find_spark_home.py")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH_", "PYTHON"))}
    ports = {f"ANABRANCH_{name}_PORT": str(free_port()) for name in PORTS}
    jars = {"ANABRANCH_JARS": str(project_root() / ".jars")}
    variables = {**plain, **ports, **jars, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    return Installed(environment, folder, variables)


def _programs(environment: Path, *names: str) -> None:
    """Programs of the tests' environment, begun by this one's Python."""
    for name in names:
        program = Path(sys.executable).parent / name
        lines = program.read_text().splitlines(keepends=True)
        if "python" in lines[0] and lines[0].startswith("#!/"):
            lines[0] = f"#!{environment / 'bin' / 'python'}\n"
        made = environment / "bin" / name
        made.write_text("".join(lines))
        made.chmod(0o755)


def totals(file: Path) -> Counter[str]:
    """Cents by country, added up by hand."""
    found: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        event = json.loads(line)
        found[event["data"]["country"]] += event["data"]["cents"]
    return found


def test_a_project_is_made_proven_run_and_read_outside_of_any_checkout(installed: Installed) -> None:
    before = installed.files()
    assert "anabranch produce events data/orders.jsonl" in installed.run("anabranch", "init", "shop")
    shop = installed.folder / "shop"
    assert "done" in installed.run("anabranch", "setup", cwd=shop)
    assert "1 passed" in installed.run("pytest", "-q", cwd=shop)
    tried = installed.run("anabranch", "topics", "try", "orders", "data/orders.jsonl", cwd=shop)
    assert " 203 valid\n" in tried
    assert "nothing was landed, sent or stored" in tried
    try:
        installed.run("anabranch", "up", cwd=shop)
        assert "203 events" in installed.run("anabranch", "produce", "events", "data/orders.jsonl", cwd=shop)

        def landed() -> bool:
            return "gap-free" in installed.run("anabranch", "landing", "verify", "orders", cwd=shop)

        def read(cwd: Path) -> Counter[str]:
            found: Counter[str] = Counter()
            rows = installed.run("anabranch", "read", "revenue", "--json", cwd=cwd, fails=None)
            if not rows.startswith("{"):  # nothing has been committed yet
                return found
            for row in json.loads(rows)["rows"]:
                found[row["country"]] += row["cents"]
            return found

        wanted = totals(shop / "data" / "orders.jsonl")
        eventually(landed, 120)
        eventually(lambda: read(shop), 120)
        days = ("--from", "2025-01-05", "--to", "2025-01-06")
        assert "2 of 2 equal" in installed.run("anabranch", "reprocess", "revenue", *days, cwd=shop)
        eventually(lambda: read(shop) == wanted, 60)  # three of the orders come late: only batch has them, if they do
        assert "batch" in installed.run("anabranch", "read", "revenue", cwd=shop)
        # A reader needs no project, only the tables.
        reader = replace(installed, variables={**installed.variables, "ANABRANCH_HOME": f"{shop / '.anabranch'}"})
        sums = "import anabranch; print(sum(anabranch.read('revenue').to_arrow()['cents'].to_pylist()))"
        assert reader.run("python", "-c", sums).strip() == f"{wanted.total()}"
    finally:
        installed.run("anabranch", "down", cwd=shop)
    assert installed.files() == before, "nothing is written beside the package's own files"
    assert str(project_root() / "platform") not in installed.run(
        "python", "-c", "import anabranch; print(anabranch.__file__)", cwd=shop
    )


@pytest.mark.sweep
def test_what_a_reader_installs_is_small_and_imported_at_once(installed: Installed, tmp_path: Path) -> None:
    """Without an extra, as pip resolves it today."""
    venv.create(tmp_path / "reader", with_pip=True)
    python = str(tmp_path / "reader" / "bin" / "python")
    (wheel,) = (installed.environment.parent / "wheels").iterdir()
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(wheel)], check=True, env=installed.variables)
    subprocess.run([*pip, "uninstall", "-y", "setuptools", "pip"], check=True, env=installed.variables)
    site = tmp_path / "reader" / "lib"
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and not path.is_symlink())
    seconds = []
    for _ in range(5):
        begun = time.monotonic()
        subprocess.run([python, "-c", "import anabranch; anabranch.read"], check=True, cwd=tmp_path)
        seconds.append(time.monotonic() - begun)
    print(f"{size / 1e6:.0f} MB; import {statistics.median(seconds):.2f} s")  # noqa: T201
    assert size <= 400e6
    assert statistics.median(seconds) < 1


def test_outside_of_a_project_every_command_says_so_and_what_to_do(installed: Installed) -> None:
    for words in (("views", "list"), ("topics", "list"), ("up",), ("setup",)):
        said = installed.run("anabranch", *words, fails=True)
        assert "NO_PROJECT" in said, words
        assert "anabranch init NAME" in said
    assert not (installed.folder / ".anabranch").exists()


def test_the_sample_domain_is_a_project_too_with_the_gallery_copied_into_it(installed: Installed) -> None:
    installed.run("anabranch", "init", "planes", "--sample", "flights")
    jobs, planes = project_root() / "spark_jobs", installed.folder / "planes"
    assert "departure_delays v1" in installed.run("anabranch", "views", "list", cwd=planes)
    written = (planes / "README.md").read_text() + (planes / "pyproject.toml").read_text()
    assert "orders" not in written
    assert "anabranch[platform,samples]" in written, "its producer reads the sample's package"
    for part in ("contracts", "views"):
        for file in (jobs / part / "gallery").iterdir():
            if file.is_file():
                shutil.copy(file, planes / "spark_jobs" / part)
    listed = installed.run("anabranch", "views", "list", cwd=planes)
    for name in ("busy_hours", "turns", "alerts", "seats_flown", "delays_corrected"):
        assert f"{name} v1" in listed
