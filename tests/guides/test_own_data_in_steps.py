"""The guide to one's own data, run as it stands: each way in five steps, and the output that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest
from anabranch.apps.cli.main import app
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from confluent_kafka.admin import AdminClient, NewTopic
from support.sent_records import raw_producer
from typer.testing import CliRunner

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
GUIDE = (project_root() / "docs" / "your-own-data.md").read_text()
WAYS = ("From a topic", "From a CSV file", "From an HTTP client")
STEPS = 5
MOST_SECONDS = 900
"""Of a way's five steps together: what the commands take. Who reads and types needs time, too."""
_BLOCK = re.compile(r"(.*?)^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_AGAIN = ("anabranch landing verify", "anabranch read")
"""Commands whose output is there once a stream has come so far."""


@dataclass
class Shop:
    """A project, its variables, and what each command has said."""

    folder: Path
    variables: dict[str, str]
    written: dict[str, str]
    """What stands in the guide for what this machine has, by that."""
    said: dict[str, str] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    """The seconds that each command has taken, until it said what the guide shows."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Those of all commands of a way, also of those that another way has run already."""

    def follow(self, way: str, step: str) -> None:
        for text, language, content in _BLOCK.findall(step):
            if language == "console":
                for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", content, re.MULTILINE):
                    self._run(command, shown)
                    self.seconds[way] += self.took[command]
            else:
                *_, name = re.findall(r"`([\w./]+\.\w+)`", text)
                (self.folder / name).parent.mkdir(exist_ok=True)
                (self.folder / name).write_text(content)

    def _run(self, command: str, shown: str) -> None:
        began = time.monotonic()
        until = began + (120 if command.startswith(_AGAIN) else 0)
        while (different := self._difference(command, shown)) and time.monotonic() < until:
            self.said.pop(command)
        assert not different, different
        self.took[command] = max(self.took.get(command, 0.0), time.monotonic() - began)

    def _difference(self, command: str, shown: str) -> str:
        if command not in self.said:  # `anabranch up` stands in each of the ways
            self.said[command] = self._output(command)
        said = self.said[command]
        return "" if matches(said, shown) else f"$ {command}\n{said}\n--- the guide says:\n{shown}"

    def _output(self, command: str) -> str:
        real = command
        for here, there in self.written.items():
            real = real.replace(there, here)
        ended = subprocess.run(
            ["/bin/bash", "-c", real],
            cwd=self.folder, env=self.variables, input="\n" * 12, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        said = ended.stdout  # Java's warnings are in the other one
        assert not ended.returncode or "quarantined" in said, f"$ {command}\n{said}{ended.stderr}"
        if token := re.search(r"shown once: (\S+)", said):
            self.variables["TOKEN"] = token[1]
        for here, there in self.written.items():
            said = said.replace(here, there)
        return said


def matches(said: str, shown: str) -> bool:
    """Whether a command has said what is shown: ``…`` stands for anything, alone in a line for any lines or none."""
    lines = [re.escape(line).replace("…", ".*") for line in plain(shown)]
    pattern = "".join("(?:.*\n)*" if line == ".*" else f"{line}\n" for line in lines)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in plain(said))) is not None


def plain(text: str) -> list[str]:
    """The lines; an answer that was only Enter ends its line, and rows of a table have no order."""
    lines = [line.rstrip() for line in re.sub(r"\]: *(?!\n)", "]:\n", text).strip("\n").splitlines()]
    return [line for rows, block in groupby(lines, _is_row) for line in (sorted(block) if rows else block)]


def _is_row(line: str) -> bool:
    return line.startswith("│")


def steps_of(way: str) -> list[str]:
    section = GUIDE.partition(f"\n## {way}\n")[2].partition("\n## ")[0]
    return re.split(r"^\*\*\d\. ", section, flags=re.MULTILINE)[1:]


@pytest.fixture(scope="module")
def shop(own_settings: Callable[[str], Settings], free_port: Callable[[], int]) -> Iterator[Shop]:
    """A project beside a broker of others, whose topic has records."""
    with lifecycle.running(own_settings("brokers-of-others"), ["kafka"]) as others:
        folder = others.home.parent / "shop"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder.parent)
            assert CliRunner().invoke(app, ["init", folder.name, "--data", "topic"]).exit_code == 0
        admin = AdminClient({"bootstrap.servers": others.brokers})
        admin.create_topics([NewTopic("payments", 1, 1)])["payments"].result(30)
        producer = raw_producer(others)
        producer.produce("payments", key=b"p-0", value=None)
        producer.produce("payments", value=b'{"paymentId": "p-')
        for number in (1, 2, 3, 4, 4, 5, 6, 7):
            at, city = 1709251200000 - (number < 5) * 86_400_000, "Oslo" if number % 2 == 0 else "Rome"
            value = f'{{"paymentId": "p-{number}", "createdAt": {at}, "cents": 1250, "shop": {{"city": "{city}"}}, '
            producer.produce("payments", value=f'{value}"terminal": 4}}'.encode())
        assert producer.flush(30) == 0
        ports = {f"ANABRANCH_{name}_PORT": str(free_port()) for name in ("POSTGRES", "AIRFLOW", "HTTP")}
        known = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {**known, **ports, "PATH": path, "COLUMNS": "120", "ANABRANCH_JARS": str(project_root() / ".jars")}
        made = Shop(folder, variables, {others.brokers: "HOST:PORT", ports["ANABRANCH_HTTP_PORT"]: "18090"})
        try:
            yield made
        finally:
            subprocess.run(
                [sys.executable, "-m", "anabranch.apps.cli.main", "down"],
                cwd=folder,
                env=variables,
                check=True,
                timeout=120,
            )


def test_each_way_has_five_steps() -> None:
    assert {way: len(steps_of(way)) for way in WAYS} == dict.fromkeys(WAYS, STEPS)


@pytest.mark.parametrize("number", range(STEPS), ids=[f"step {n}" for n in range(1, STEPS + 1)])
def test_what_the_guide_shows_is_what_happens(shop: Shop, number: int) -> None:
    for way in WAYS:
        shop.follow(way, steps_of(way)[number])


def test_each_way_takes_less_than_a_quarter_of_an_hour(shop: Shop) -> None:
    """The last test: after all steps."""
    assert set(shop.seconds) == set(WAYS)
    assert {way: seconds for way, seconds in shop.seconds.items() if seconds >= MOST_SECONDS} == {}
