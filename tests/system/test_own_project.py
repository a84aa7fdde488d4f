"""A project of one's own, outside of any checkout: made by the installed wheels, and run as its README says."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.core.errors import AnabranchError
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from support.processes import eventually, everything, reach

pytestmark = pytest.mark.system

BUILT_FROM = ("platform", "pyproject.toml", "README.md", "LICENSE", "spark_jobs")
PACKAGE, SAMPLES = "anabranch", "anabranch_samples"
PROJECTS = {PACKAGE: ".", SAMPLES: "platform/samples"}
"""The folder of each distribution's project, by the name of its wheel."""
SAMPLE = ("platform/samples", "spark_jobs")
"""All that is the sample's."""
PORTS = ("KAFKA", "KAFKA_CONTROLLER", "POSTGRES", "AIRFLOW")


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that holds one wheel or both, a folder beside it, and what programs in it are given."""

    environment: Path
    folder: Path
    variables: dict[str, str]
    wheels: Mapping[str, Path]

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


PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index")


@pytest.fixture(scope="module")
def wheels(own_home: Path) -> Mapping[str, Path]:
    """Both, by the names of their packages, built from a copy of what a checkout has."""
    source, target = own_home / "of-a-user" / "source", own_home / "of-a-user" / "wheels"
    source.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in BUILT_FROM:
        path = project_root() / name
        shutil.copytree(path, source / name, ignore=ignored) if path.is_dir() else shutil.copy(path, source)
    folders = [str(source / folder) for folder in PROJECTS.values()]
    subprocess.run([*PIP, "wheel", *OFFLINE, "-w", str(target), *folders], check=True)
    shutil.rmtree(source)
    return {name: next(target.glob(f"{name}-*.whl")) for name in PROJECTS}


@pytest.fixture(scope="module")
def alone(own_home: Path, wheels: Mapping[str, Path], free_port: Callable[[], int]) -> Installed:
    """The wheel of ``anabranch`` is installed without the checkout. What it needs is taken from the environment of the
    tests: the same versions, without a download (the sweep installs everything)."""
    environment, folder = own_home / "of-a-user" / "environment", own_home / "of-a-user" / "work"
    folder.mkdir(parents=True)
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    _install(site, wheels[PACKAGE])
    (site / "needed.pth").write_text(f"{_needed(own_home / 'of-a-user' / 'needed')}\n")
    _programs(environment, "anabranch", "airflow", "pytest", "spark-submit", "find-spark-home", "find_spark_home.py")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH_", "PYTHON"))}
    ports = {f"ANABRANCH_{name}_PORT": str(free_port()) for name in PORTS}
    jars = {"ANABRANCH_JARS": str(project_root() / ".jars")}
    variables = {**plain, **ports, **jars, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    return Installed(environment, folder, variables, wheels)


@pytest.fixture(scope="module")
def installed(alone: Installed) -> Installed:
    """With the wheel of the samples as well."""
    (site,) = alone.environment.glob("lib/python*/site-packages")
    _install(site, alone.wheels[SAMPLES])
    return alone


def _needed(folder: Path) -> Path:
    """All that the tests' environment has, but nothing of ours: its entry points would be found, too."""
    folder.mkdir()
    for found in Path(pytest.__file__).parents[1].iterdir():
        if not found.name.startswith((PACKAGE, "__editable__", "__pycache__")):
            (folder / found.name).symlink_to(found)
    return folder


def _install(site: Path, wheel: Path) -> None:
    subprocess.run([*PIP, "install", *OFFLINE, "--target", str(site), str(wheel)], check=True)


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


@dataclass(frozen=True, slots=True)
class Project:
    """A project of this user, from the template: the topic orders, and its view revenue."""

    user: Installed
    folder: Path

    def anabranch(self, *words: str, fails: bool | None = False) -> str:
        return self.user.run("anabranch", *words, cwd=self.folder, fails=fails)

    @property
    def settings(self) -> Settings:
        """As the tests' own process sees it: to look at its processes, not to start any."""
        return Settings(project=self.folder, home=self.folder / ".anabranch")

    def landed(self) -> bool:
        return "gap-free" in self.anabranch("landing", "verify", "orders")

    def revenue(self) -> Counter[str]:
        """Cents by country, as a reader gets them."""
        found: Counter[str] = Counter()
        try:
            rows = anabranch.read("revenue", settings=self.settings).to_arrow()
        except AnabranchError:  # nothing has been committed yet
            return found
        for row in rows.to_pylist():
            found[row["country"]] += row["cents"]
        return found

    def status(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.anabranch("status", "--json"))
        return shown

    def processes(self) -> dict[str, int]:
        """The process of each part, by its name: another number after a restart."""
        return {part.name: part.pid for part in lifecycle.status(self.settings) if part.pid}

    def sells(self, hour: str, **cents: int) -> None:
        """Sends an order to each country, and is done when they are in the log."""
        lines = []
        for country, total in cents.items():
            order = {"specversion": "1.0", "id": f"{country}-{hour}", "source": "/shop", "type": "order.placed"}
            order |= {"subject": "customer-0", "time": f"2025-01-20T{hour}:00:00Z"}
            lines.append(json.dumps(order | {"data": {"country": country, "cents": total}}) + "\n")
        (self.folder / "data" / "sold.jsonl").write_text("".join(lines))
        assert f"{len(cents)} events" in self.anabranch("produce", "events", "data/sold.jsonl")


@pytest.fixture(scope="module")
def shop(installed: Installed) -> Iterator[Project]:
    """The first project; it runs until the end of this file."""
    before = installed.files()
    assert "anabranch produce events data/orders.jsonl" in installed.run("anabranch", "init", "shop")
    project = Project(installed, installed.folder / "shop")
    try:
        yield project
    finally:
        project.anabranch("down")
    assert installed.files() == before, "nothing is written beside the package's own files"


@pytest.fixture
def bakery(installed: Installed, free_port: Callable[[], int]) -> Iterator[Project]:
    """A second project of the same names. Its ports are settings in its folder, as its user would write them."""
    plain = {name: value for name, value in installed.variables.items() if not name.endswith("_PORT")}
    user = replace(installed, variables=plain)
    user.run("anabranch", "init", "bakery")
    project = Project(user, user.folder / "bakery")
    with (project.folder / "anabranch.env").open("a") as settings:
        settings.writelines(f"ANABRANCH_{name}_PORT={free_port()}\n" for name in PORTS)
    try:
        yield project
    finally:
        project.anabranch("down")


def read_by_command(project: Project) -> Counter[str]:
    """The same as ``Project.revenue``, by the command."""
    found: Counter[str] = Counter()
    rows = project.anabranch("read", "revenue", "--json", fails=None)
    if not rows.startswith("{"):  # nothing has been committed yet
        return found
    for row in json.loads(rows)["rows"]:
        found[row["country"]] += row["cents"]
    return found


def totals(file: Path) -> Counter[str]:
    """Cents by country, added up by hand."""
    found: Counter[str] = Counter()
    for line in file.read_text().splitlines():
        event = json.loads(line)
        found[event["data"]["country"]] += event["data"]["cents"]
    return found


def held(wheel: Path) -> dict[str, str]:
    """The files of a wheel, with the digests of their contents; empty ones are left out."""
    with zipfile.ZipFile(wheel) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}
    return {name: sha256(content).hexdigest() for name, content in contents.items() if content}


def of_the_sample(wheel: Path) -> set[str]:
    """The files of a wheel that are in ``platform/samples`` or ``spark_jobs``, wherever they lie in the wheel."""
    made = ("__pycache__", "build")
    files = [
        file
        for folder in SAMPLE
        for file in (project_root() / folder).rglob("*")
        if file.is_file() and not any(part in made or part.endswith(".egg-info") for part in file.parts)
    ]
    assert len(files) > 40
    digests = {sha256(file.read_bytes()).hexdigest() for file in files if file.name != "LICENSE"}
    return {name for name, digest in held(wheel).items() if digest in digests or name.split("/")[0] == SAMPLES}


def test_the_sample_is_in_its_own_wheel_and_nothing_of_it_in_that_of_the_package(wheels: Mapping[str, Path]) -> None:
    assert of_the_sample(wheels[PACKAGE]) == set()
    assert {name.split("/")[0].partition("-")[0] for name in held(wheels[PACKAGE])} == {PACKAGE}
    samples = held(wheels[SAMPLES])
    assert {name.split("/")[0].partition("-")[0] for name in samples} == {SAMPLES}
    assert {f"{SAMPLES}/{name}" for name in ("flights.py", "demo/shop/contracts/web.ordered.avsc",
            "project/contracts/flights.py", "project/views/departure_delays.py",
            "project/next/departure_delays_v2.py")} <= samples.keys()  # fmt: skip


def test_without_the_samples_what_needs_them_says_what_to_install(alone: Installed) -> None:
    assert not list(alone.environment.glob(f"lib/python*/site-packages/{SAMPLES}")), "this test comes first"
    alone.run("anabranch", "init", "alone")
    project, sent = alone.folder / "alone", "data/orders.jsonl"
    for words in (
        ("init", "planes", "--sample", "flights"), ("demo", "--days", "3"), ("produce", "flights", "--days", "3"),
        ("doctor", "--sent", sent),
    ):  # fmt: skip
        said = alone.run("anabranch", *words, cwd=project, fails=True)
        assert "SAMPLES_NOT_INSTALLED" in said, (words, said)
        assert "state: nothing was" in said
        assert "install its wheel" in said
    assert not (project / "planes").exists()
    assert "demo" not in alone.run("anabranch", "--help").split()


def test_a_project_is_made_proven_run_and_read_outside_of_any_checkout(installed: Installed, shop: Project) -> None:
    assert "done" in shop.anabranch("setup")
    assert "1 passed" in installed.run("pytest", "-q", cwd=shop.folder)
    tried = shop.anabranch("topics", "try", "orders", "data/orders.jsonl")
    assert " 203 valid\n" in tried
    assert "nothing was landed, sent or stored" in tried
    shop.anabranch("up")
    assert "203 events" in shop.anabranch("produce", "events", "data/orders.jsonl")
    wanted = totals(shop.folder / "data" / "orders.jsonl")
    eventually(shop.landed, 120)
    eventually(lambda: read_by_command(shop), 120)
    days = ("--from", "2025-01-05", "--to", "2025-01-06")
    assert "2 of 2 equal" in shop.anabranch("reprocess", "revenue", *days)
    eventually(
        lambda: read_by_command(shop) == wanted, 60
    )  # three of the orders come late: only batch has them, if they do
    assert "batch" in shop.anabranch("read", "revenue")
    # A reader needs no project, only the tables.
    reader = replace(installed, variables={**installed.variables, "ANABRANCH_HOME": f"{shop.settings.home}"})
    sums = "import anabranch; print(sum(anabranch.read('revenue').to_arrow()['cents'].to_pylist()))"
    assert reader.run("python", "-c", sums).strip() == f"{wanted.total()}"
    assert str(project_root() / "platform") not in installed.run(
        "python", "-c", "import anabranch; print(anabranch.__file__)", cwd=shop.folder
    )


def test_two_projects_run_side_by_side_by_ports_and_homes_alone(shop: Project, bakery: Project) -> None:
    """Both have the same topic, view, days, ids of events and user. The second one goes without Airflow, but with its
    database: what Airflow is given is compared in ``test_services.py``, the other order of ``down`` in
    ``test_supervisor.py``."""
    if not shop.processes():  # this test runs alone
        shop.anabranch("up")
    sold = shop.revenue()
    refused = replace(bakery, user=shop.user).anabranch("up", "--only", "streams", fails=True)
    assert "PORT_IN_USE" in refused, "with the ports of the first one the second does not start, and says so"
    bakery.anabranch("up", "--only", "streams,postgres")

    shop.sells("08", NL=700)
    bakery.sells("08", NL=30, FR=4)  # the first has the same id in both: with another content it were a conflict
    for project, wanted in ((shop, sold + Counter({"NL": 700})), (bakery, Counter({"NL": 30, "FR": 4}))):
        eventually(lambda: project.revenue() == wanted, 60)  # noqa: B023
        shown = project.status()
        assert [view["state"] for view in shown["views"]] == ["running"]
        assert {part["name"]: part["pid"] for part in shown["parts"] if part["pid"]} == project.processes()
    parts = {part["name"]: part["port"] for part in shown["parts"]}
    assert parts.keys() == {"supervisor", "kafka", "postgres", "landing", "speed"}

    mine, theirs = (reach(everything(project.settings)) for project in (shop, bakery))
    assert mine.below(shop.folder)
    assert theirs.below(bakery.folder)
    assert not mine.below(bakery.folder) | theirs.below(shop.folder), "a file, folder or socket of the other one's"
    assert not mine.written & theirs.written
    assert not mine.listens & theirs.listens
    assert {parts["kafka"], parts["postgres"]} <= theirs.listens
    assert not mine.connected & theirs.listens | theirs.connected & mine.listens, "it talks to the other one's servers"

    of_bakery = bakery.processes()
    assert "kafka" in shop.anabranch("down")
    assert shop.processes() == {}
    bakery.sells("09", NL=1)
    eventually(lambda: bakery.revenue() == Counter({"NL": 31, "FR": 4}), 60)
    assert bakery.processes() == of_bakery, "none was ended or started again"


@pytest.mark.sweep
def test_what_a_reader_installs_is_small_and_imported_at_once(installed: Installed, tmp_path: Path) -> None:
    """Without an extra, as pip resolves it today."""
    venv.create(tmp_path / "reader", with_pip=True)
    python = str(tmp_path / "reader" / "bin" / "python")
    wheel = installed.wheels[PACKAGE]
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
    assert '"anabranch[platform]", "anabranch-samples"' in written, "its producer is in the sample's package"
    assert "PATH/TO/anabranch_samples-" in written
    for part in ("contracts", "views"):
        for file in (jobs / part / "gallery").iterdir():
            if file.is_file():
                shutil.copy(file, planes / "spark_jobs" / part)
    listed = installed.run("anabranch", "views", "list", cwd=planes)
    for name in ("busy_hours", "turns", "alerts", "seats_flown", "delays_corrected"):
        assert f"{name} v1" in listed
