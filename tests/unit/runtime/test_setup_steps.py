"""What is set up says each step, how long it takes, and how large it is; it is never silent for minutes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.operate.setup import _set_up
from anabranch.operate.setup._set_up import _run
from anabranch.operate.setup.resolve_jars import STAMP, entries, stamp

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


def test_the_command_says_how_long_a_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_set_up, "TELL_SECONDS", 0.2)
    said = list[str]()
    sleeping = [sys.executable, "-c", "import time; print('here'); time.sleep(1); raise SystemExit(7)"]
    assert _run(sleeping, tmp_path / "log", said.append, lambda: ", 12 MB of JARs so far") == 7
    assert said[0] == "  0 s, 12 MB of JARs so far"
    assert said[-1] == "  1 s, 12 MB of JARs so far"
    assert (tmp_path / "log").read_text() == "here\n"


def test_a_program_ends_with_whoever_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_set_up, "TELL_SECONDS", 0.1)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log", interrupt)
    assert time.monotonic() - began < 20


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    from anabranch.core.engine.spark import class_archive
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
    assert entries(listing) == ["org:some:1", "Some.java"]
    before = stamp(listing)
    source.write_text("class Some { int field; }")
    assert stamp(listing) != before


def test_archives_of_other_jars_go_and_only_what_is_missing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.core.engine.spark import class_archive
    from anabranch.operate.runtime.kafka_server import broker_archive

    settings, seen = Settings(home=tmp_path / "home", jars=tmp_path / "jars"), list[set[str]]()

    def run(*_: object, **__: object) -> int:
        seen.append({file.name for file in settings.jars.glob("*.jsa")})
        return 0

    settings.jars.mkdir()
    for archive in (class_archive(settings), broker_archive(settings), settings.jars / "classes.jsa"):
        archive.touch()
    monkeypatch.setattr(_set_up, "_resolve", lambda _, name, *__: name == "spark")
    monkeypatch.setattr(_set_up, "_run", run)
    _set_up.set_up(settings)
    assert seen == [{broker_archive(settings).name}]


def test_an_archive_that_exists_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no JARs here: whatever starts an engine or a broker fails."""
    from anabranch.core.engine.spark import class_archive
    from anabranch.operate.runtime.kafka_server import broker_archive
    from anabranch.operate.setup import _archive_classes

    monkeypatch.setenv("ANABRANCH_JARS", str(tmp_path))
    archives = [path(Settings(jars=tmp_path)) for path in (class_archive, broker_archive)]
    for archive in archives:
        archive.write_bytes(b"made before")
    _archive_classes.main()
    assert {archive.read_bytes() for archive in archives} == {b"made before"}
