"""What other distributions add to the command line, and what is said where anabranch-samples isn't installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import typer
from anabranch.apps.cli import main, plugins
from anabranch.apps.cli.plugins import INSTALL, register_commands, sample_checks, sample_named
from anabranch.apps.cli.produce_commands import produce
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.old_names import renamed
from anabranch_samples.sample import FLIGHTS, Flights
from support.our_packages import SAMPLES
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
OTHERS: Flights = replace(Flights(), distribution="Others.Samples")


def register_good(app: typer.Typer) -> None:
    app.command("theirs")(lambda: typer.echo("done"))


def register_bad(app: typer.Typer) -> None:
    raise RuntimeError("made for another version")


class Missing:
    """The value of an entry point that can't be loaded."""


@dataclass(frozen=True)
class Point:
    """An entry point of a distribution that isn't installed."""

    name: str
    value: object
    dist: None = None

    def load(self) -> object:
        if isinstance(self.value, Missing):
            raise ModuleNotFoundError("made for another version")
        return self.value


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Point]]:
    """Entry points by their group, in place of those that are installed: none at first."""
    groups = dict[str, list[Point]]()
    monkeypatch.setattr(plugins, "entry_points", lambda group: groups.get(group, []))
    return groups


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """Our command line without the commands of others."""
    ours = typer.Typer(cls=main.Commands)
    ours.command()(lambda: None)
    monkeypatch.setattr(produce, "registered_commands", [c for c in produce.registered_commands if c.name != "flights"])
    ours.add_typer(produce, name="produce")
    return ours


def test_the_sample_is_found_by_its_entry_points() -> None:
    assert {point.name for point in entry_points(group=plugins.COMMANDS)} >= {"demo", "flights"}
    sample = sample_named("flights")
    assert sample is FLIGHTS
    assert (sample.folder / "views" / f"{sample.first_view}.py").is_file()
    assert list((sample.folder / "contracts").glob("*.json"))
    (check,) = sample_checks(Path("sent.parquet"))
    assert check.name == "served rows against an oracle"


@pytest.mark.parametrize("name", ["flights", "others"])
def test_without_any_sample_init_says_what_to_install(
    name: str, installed: dict[str, list[Point]], outside: Path
) -> None:
    result = CliRunner().invoke(main.app, ["init", "planes", "--sample", name])
    assert result.exit_code == 1
    assert "[SAMPLES_NOT_INSTALLED]" in result.stderr
    assert "state: nothing was written" in result.stderr
    assert f"next: {INSTALL}" in " ".join(result.stderr.split())
    assert list(outside.iterdir()) == []
    assert CliRunner().invoke(main.app, ["init", "shop"]).exit_code == 0, "a project without a sample needs none"


def test_the_doctor_says_what_sent_needs(
    installed: dict[str, list[Point]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    (sent := tmp_path / "sent.parquet").touch()
    result = CliRunner().invoke(main.app, ["doctor", "--sent", str(sent)])
    assert result.exit_code == 1
    assert "[SAMPLES_NOT_INSTALLED]" in result.stderr, result.output
    assert "state: nothing was checked" in result.stderr
    assert f"next: {INSTALL}" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "words", [["demo"], ["demo", "--days", "3", "more"], ["produce", "flights", "--from", "2013-01-01"]]
)
def test_its_commands_say_it_too_and_no_help_lists_them(
    words: list[str], installed: dict[str, list[Point]], app: typer.Typer
) -> None:
    register_commands(app)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "[SAMPLES_NOT_INSTALLED]" in result.stderr, result.output
    assert f"next: {INSTALL}" in " ".join(result.stderr.split())
    assert "demo" not in CliRunner().invoke(app, ["--help"]).stdout.split()
    assert "flights" not in CliRunner().invoke(app, ["produce", "--help"]).stdout


@pytest.mark.parametrize(
    ("words", "others"),
    [("status", False), ("--debug status", False), ("landing verify flights", False), ("init x --sample y", False),
     ("", True), ("--help", True), ("demo --days 3", True), ("produce flights", True), ("theirs", True)],
)  # fmt: skip
def test_a_command_of_ours_does_not_look_for_those_of_others(words: str, others: bool) -> None:
    ours = {"status", "landing", "init", "produce"}
    assert main.needs_others(words.split(), ours) is others


@pytest.mark.parametrize(("words", "looks"), [("status --help", False), ("demo --help", True), ("--help", True)])
def test_the_command_line_looks_when_it_has_to(words: str, looks: bool) -> None:
    program = "from anabranch.apps.cli import plugins; plugins.entry_points = lambda group: print('looks') or []; "
    program += "from anabranch.apps.cli.main import app; app()"
    done = subprocess.run([sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("looks") is looks


def test_a_command_that_can_not_be_loaded_takes_no_other_away(
    installed: dict[str, list[Point]], app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    installed[plugins.COMMANDS] = [Point("bad", register_bad), Point("good", register_good)]
    register_commands(app)
    assert "the command bad of" in (said := capsys.readouterr().err)
    assert "made for another version" in said
    assert CliRunner().invoke(app, ["theirs"]).stdout == "done\n"


@pytest.mark.parametrize("words", [["demo"], ["produce", "flights"]])
def test_commands_that_are_installed_and_do_not_load_say_so(
    words: list[str], installed: dict[str, list[Point]], app: typer.Typer
) -> None:
    installed[plugins.COMMANDS] = [Point(words[-1], register_bad)]
    register_commands(app)
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "[PLUGIN_BROKEN]" in result.stderr) == (1, True)
    assert "made for another version" in result.stderr


def test_the_same_of_a_sample(installed: dict[str, list[Point]], outside: Path) -> None:
    installed[plugins.SAMPLES] = [Point("planes", Missing())]
    for asks in (lambda: sample_named("planes"), lambda: sample_checks(Path("sent"))):
        with pytest.raises(BrokenState, match="made for another version") as broken:
            asks()
        assert broken.value.code == "PLUGIN_BROKEN"


def test_a_command_of_another_distribution_takes_the_name_that_ours_would_have(
    installed: dict[str, list[Point]], app: typer.Typer
) -> None:
    def demo() -> None:
        typer.echo("theirs")

    installed[plugins.COMMANDS] = [Point("others", lambda app: app.command()(demo))]
    register_commands(app)
    assert CliRunner().invoke(app, ["demo"]).stdout == "theirs\n"


def test_samples_of_others_come_in_the_same_way(installed: dict[str, list[Point]], outside: Path) -> None:
    installed[plugins.SAMPLES] = [Point("planes", OTHERS)]
    assert sample_named("planes") is OTHERS
    with pytest.raises(BadInput) as unknown:
        sample_named("trains")
    assert (unknown.value.code, unknown.value.next_step) == ("SAMPLE_UNKNOWN", "choose from planes")
    with pytest.raises(BadInput) as missing:
        sample_named("flights")
    assert missing.value.code == "SAMPLES_NOT_INSTALLED"
    assert CliRunner().invoke(main.app, ["init", "own", "--sample", "planes"]).exit_code == 0
    written = {
        name: (outside / "own" / name).read_text() for name in ("pyproject.toml", "README.md", "infra/Dockerfile")
    }
    assert 'dependencies = ["anabranch[platform]", "Others.Samples"]' in written["pyproject.toml"]
    assert "PATH/TO/others_samples-*.whl" in written["README.md"]
    assert "wheels/others_samples-*.whl" in written["infra/Dockerfile"]


def test_a_project_without_a_sample_asks_for_none(outside: Path) -> None:
    assert CliRunner().invoke(main.app, ["init", "shop"]).exit_code == 0
    texts = [file.read_text() for file in (outside / "shop").rglob("*") if file.is_file()]
    assert 'dependencies = ["anabranch[platform]"]' in "".join(texts)
    assert not any("MORE_" in text or "samples-" in text for text in texts)


def test_an_entry_point_says_whose_it_is() -> None:
    point = next(iter(entry_points(group=plugins.COMMANDS)))
    assert plugins._from(point) == "anabranch-samples"
    assert plugins._from(EntryPoint("a", "b:c", "d")) == "b:c"


NOT_THERE = f"""
import sys
from importlib.abc import MetaPathFinder

class LeftOut(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == {SAMPLES.name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, LeftOut())
"""


@pytest.mark.parametrize(
    "line", ["from anabranch.samples.flights import flight_events",
             "from anabranch.apps.cli.produce_commands import produce_flights"]
)  # fmt: skip
def test_an_import_by_an_old_name_says_what_to_install(line: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", NOT_THERE + line], capture_output=True, text=True)
    assert done.returncode == 1
    assert "which isn't installed: install its wheel" in done.stderr.splitlines()[-1]


def test_each_module_that_moved_keeps_its_old_names() -> None:
    """Those that ``anabranch`` 0.1.0 had below ``samples`` and ``apps.demo``, as its own files imported them."""
    moved = {old for old, new in renamed().modules.items() if new.startswith(SAMPLES.name)}
    assert moved >= {"samples", "samples.faults", "samples.flights", "samples.oracle", "samples.publishing",
                     "apps.demo", "apps.demo.change", "apps.demo.run", "apps.cli.sample_oracle"}  # fmt: skip
