"""What is set up says each step, how long it takes, and how large it is; it is never silent for minutes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import TryAgain
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.operate.setup import _set_up
from anabranch.operate.setup._set_up import Program, _run
from anabranch.operate.setup.resolve_jars import STAMP, coordinates, sources, stamp

pytestmark = pytest.mark.unit
STEPS = project_root() / "infra" / "steps.sh"


def script(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    head = f"set -euo pipefail\nsource {STEPS}\nlog={tmp_path}/log\n"
    seen = 'seen() { echo ", $(wc -l < "$log") lines"; }\n'
    given = {"SETUP_TELL_SECONDS": "0.3", "PATH": "/usr/bin:/bin"}
    command = ["bash", "-c", head + seen + text]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=given)


def test_a_step_of_the_script_says_its_time_while_it_runs_and_at_its_end(tmp_path: Path) -> None:
    began = time.monotonic()
    done = script(tmp_path, "step 'installing' seen sh -c 'echo one; sleep 1.2; echo two'\necho after")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "setup: installing"
    assert len(lines) > 4
    assert all(re.fullmatch(r"setup:   \d s, 1 lines", line) for line in lines[1:-2]), lines
    assert re.fullmatch(r"setup:   done in [12] s, 2 lines", lines[-2])
    assert lines[-1] == "after"
    assert done.stderr == ""
    assert time.monotonic() - began < 10, "something held the pipe"


def test_a_step_that_fails_shows_the_end_of_its_output_and_ends_the_script(tmp_path: Path) -> None:
    done = script(tmp_path, "step 'installing' : sh -c 'echo no such package >&2; exit 3'\necho after")
    assert done.returncode != 0
    assert "after" not in done.stdout
    said = r"no such package\nsetup: installing failed after \d+ s; all of its output is in "
    assert re.match(said, done.stderr), done.stderr


def program(tmp_path: Path, code: str, name: str = "log", measured: str = "") -> Program:
    return Program([sys.executable, "-c", code], tmp_path / name, measured=lambda: measured)


def test_the_command_says_how_long_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_set_up, "TELL_SECONDS", 0.3)
    said = list[str]()
    programs = {
        "short": program(tmp_path, "import time; time.sleep(1); raise SystemExit(7)", "short", ", 12 MB of one"),
        "long": program(tmp_path, "import time; print('here'); time.sleep(2.5)", "long", ", 3 MB of the other"),
    }
    assert _run(programs, said.append) == {"short": 7, "long": 0}
    assert said[0] == "  0 s, 12 MB of one, 3 MB of the other", "both at once"
    assert said[-1] in ("  2 s, 3 MB of the other", "  3 s, 3 MB of the other")
    assert (tmp_path / "long").read_text() == "here\n"


def test_programs_end_with_whoever_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_set_up, "TELL_SECONDS", 0.1)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    began, sleeping = time.monotonic(), "import time; time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        _run({name: program(tmp_path, sleeping, name) for name in ("one", "two")}, interrupt)
    assert time.monotonic() - began < 20


def test_what_a_program_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker or an engine would go on alone."""
    monkeypatch.setattr(_set_up, "TELL_SECONDS", 0.1)
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    log = tmp_path / "log"

    def interrupt(_: str) -> None:
        if log.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run({"one": program(tmp_path, code)}, interrupt)
    child = Path(f"/proc/{int(log.read_text())}/cmdline")
    until = time.monotonic() + 5
    while child.exists() and child.read_bytes() and time.monotonic() < until:  # a zombie has no command line
        time.sleep(0.05)
    assert not (child.exists() and child.read_bytes())


def test_a_list_that_is_not_resolved_ends_the_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.core.engine.java_options import class_archive

    settings = Settings(home=tmp_path / "home", jars=tmp_path / "jars")
    failing = program(tmp_path, "print('UNRESOLVED DEPENDENCIES'); raise SystemExit(1)")
    sound = program(tmp_path, "", "sound")
    monkeypatch.setattr(_set_up, "_resolving", lambda _, name: failing if name == "kafka" else sound)
    settings.jars.mkdir()
    archive = class_archive(settings)
    archive.touch()
    with pytest.raises(TryAgain, match=r"the JARs of Kafka couldn't be resolved: UNRESOLVED DEPENDENCIES"):
        _set_up.set_up(settings)
    assert not archive.exists(), "those of Spark are others by now"


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    from anabranch.core.engine.java_options import class_archive
    from anabranch.operate.runtime.kafka_server import broker_archive

    settings = Settings(home=tmp_path / "home", jars=tmp_path / "jars")
    for name in ("spark", "kafka"):
        listing = Path(_set_up.__file__).parent / f"{name}.jars.lock"
        (settings.jars / name).mkdir(parents=True)
        (settings.jars / name / STAMP).write_text(stamp(listing))
    class_archive(settings).touch()
    broker_archive(settings).touch()
    said = list[str]()
    _set_up.set_up(settings, said.append)
    assert said == []


def test_other_java_of_our_own_is_compiled_again(tmp_path: Path) -> None:
    listing, source = tmp_path / "spark.jars.lock", tmp_path / "Some.java"
    listing.write_text("# what it needs\norg:some:1  # and why\nSome.java\n")
    source.write_text("class Some {}")
    assert (coordinates(listing), sources(listing)) == (["org:some:1"], [source])
    before = stamp(listing)
    source.write_text("class Some { int field; }")
    assert stamp(listing) != before


def test_with_another_cluster_no_classes_of_a_broker_are_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never started here, and with that cluster's login it couldn't be."""
    from anabranch.operate.runtime.kafka_server import broker_archive

    away: dict[str, Any] = {"bootstrap_servers": "broker:9092", "kafka_user": "anna", "kafka_password": "secret"}
    settings, made = Settings(home=tmp_path / "home", jars=tmp_path / "jars", **away), list[str]()

    def run(programs: Mapping[str, Program], _: object) -> dict[str, int]:
        made.extend(programs)
        return dict.fromkeys(programs, 0)

    settings.jars.mkdir()
    monkeypatch.setattr(_set_up, "_is_resolved", lambda *_: True)
    monkeypatch.setattr(_set_up, "_run", run)
    _set_up.set_up(settings)
    assert made == ["spark"]
    broker_archive(settings).touch()
    _set_up.set_up(settings)
    assert broker_archive(settings).exists(), "another project may use these JARs"


def test_archives_of_other_jars_go_and_only_what_is_missing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.core.engine.java_options import class_archive
    from anabranch.operate.runtime.kafka_server import broker_archive

    settings, made = Settings(home=tmp_path / "home", jars=tmp_path / "jars"), list[str]()

    def run(programs: Mapping[str, Program], _: object) -> dict[str, int]:
        made.extend(programs)
        return dict.fromkeys(programs, 1)

    settings.jars.mkdir()
    for archive in (class_archive(settings), broker_archive(settings), settings.jars / "classes.jsa"):
        archive.touch()
    monkeypatch.setattr(_set_up, "_is_resolved", lambda _, name: name == "kafka")
    monkeypatch.setattr(_set_up, "_resolve", lambda *_: None)
    monkeypatch.setattr(_set_up, "_run", run)
    said = list[str]()
    _set_up.set_up(settings, said.append)
    assert made == ["spark"]
    assert [file.name for file in settings.jars.glob("*.jsa")] == [broker_archive(settings).name]
    assert said[-1] == f"a class archive is missing: see {settings.jars}/spark-archive.log"
