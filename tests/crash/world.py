"""Where the sweep takes place: one real broker, and one home that is put back to a known state before each try."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from anabranch.core.engine.java_options import SHORT_LIVED
from anabranch.core.engine.spark import session
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import ensure_topics
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.environment import environment
from anabranch_samples.faults import Faults, inject
from anabranch_samples.flights import flight_events
from anabranch_samples.publishing import Pace, publish
from support.sent_records import raw_producer
from support.short_engines import SMALL_JOBS

from crash.acts import AIRCRAFT, CORRECTED, DELAYS, FIRST, TURNS, Stage, narrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAULTS = Faults(days_late=0.03, duplicates=0.02, malformed=0.01, broken_contracts=0.01)
VIEWS = ((DELAYS, 1), (DELAYS, 2), (AIRCRAFT, 1), (CORRECTED, 1), (TURNS, 1))
_BATCH = 1_500
"""Offsets of an epoch: several for each part of the events."""

_PATIENCE = 600
"""Seconds after which a program is killed that neither ends nor comes to its point."""

_PARCELS = """
from anabranch.contracts import Contract, Topic

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 999}}}
PARCELS = Topic("parcels", (Contract("parcel.seen", 1, SCHEMA),), partitions=2)
"""


@dataclass
class World:
    """``home`` is always the same folder: a checkpoint of a processor knows its whole path."""

    root: Path
    settings: Settings
    sent: list[Path] = field(default_factory=list)
    kept: str = ""
    """The newest template that there is."""
    views: tuple[tuple[str, int], ...] = VIEWS
    """Those that have streams, by name and version; of ``departure_delays`` each has batch days, too."""

    @property
    def home(self) -> Path:
        return self.settings.home

    def session(self) -> SparkSession:
        """For all restarts and judgements. Its scratch folder must stay when the home is put back."""
        engine = self.settings.model_copy(update={"home": self.root / "engine"})
        return session(engine, "anabranch-sweep", SMALL_JOBS)

    def prepare(self, stage: Stage, until: str) -> None:
        """Send the events in two parts, and keep the platform as it is between the steps of a day, up to the template
        that is asked for. May be called again for a later one."""
        for template, step in self._steps.items():
            if not (self.root / "templates" / template).exists():
                if template == "landed":
                    self.put_back("empty")
                elif self.kept:
                    self.put_back(self.kept)
                step(stage)
                shutil.copytree(self.home, self.root / "templates" / template, symlinks=True)
            self.kept = template
            if template == until:
                return

    @property
    def _steps(self) -> Mapping[str, Callable[[Stage], None]]:
        """In the order of the day: each begins where the one before has ended."""
        return {
            "empty": self._empty, "quarantined": self._quarantined, "landed": self._landed, "live": self._live,
            "ahead": self._ahead, "level": self._level, "migrated": Stage.migrate,
            "retired": Stage.retire_and_begin_to_drop,
        }  # fmt: skip

    def _empty(self, stage: Stage) -> None:
        ensure_topics(self.settings, stage.declared, ["flights", "parcels"])

    def _landed(self, stage: Stage) -> None:
        events = self._events(stage)
        self._send(stage, events.head(events.height * 2 // 3))
        stage.land_flights()

    def _live(self, stage: Stage) -> None:
        for name, version in self.views:
            stage.stream(name, version)
        for version in self._of_delays:
            stage.reprocess(DELAYS, [FIRST], f"day-{version}", version)

    def _ahead(self, stage: Stage) -> None:
        events = self._events(stage)
        self._send(stage, events.tail(events.height - events.height * 2 // 3))
        stage.land_flights()

    def _level(self, stage: Stage) -> None:
        for name, version in self.views:
            stage.stream(name, version)
        if 2 in self._of_delays:
            stage.reprocess(DELAYS, [FIRST], "again-2", 2)

    @property
    def _of_delays(self) -> list[int]:
        return [version for name, version in self.views if name == DELAYS]

    @staticmethod
    def _events(stage: Stage) -> pl.DataFrame:
        return inject(flight_events(FIRST, 2, stage.declared).filter(topic="flights"), _FAULTS, 7)

    def _quarantined(self, stage: Stage) -> None:
        producer = raw_producer(self.settings)
        for number in range(40):
            producer.produce(stage.parcels.name, value=_parcel(number), partition=number % 2)
        assert producer.flush(20) == 0
        stage.land(narrow(stage.parcels))

    def _send(self, stage: Stage, events: pl.DataFrame) -> None:
        file = self.root / f"sent-{len(self.sent)}.parquet"
        with Producer(self.settings, stage.declared) as producer:
            publish(producer, events, file, Pace())
        self.sent.append(file)

    def everything_sent(self) -> Path | None:
        """The producer's own file of all that is in the log; None before the first."""
        if not self.sent:
            return None
        target = self.root / f"sent-all-{len(self.sent)}.parquet"
        if not target.exists():
            pl.concat([pl.read_parquet(file) for file in self.sent]).write_parquet(target)
        return target

    def put_back(self, template: str) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.root / "templates" / template, self.home, symlinks=True)

    def begin(self, blow: dict[str, Any] | None, log: Path, *acts: str) -> Program:
        """Start a program that carries the acts out, with its names noted, or with a blow; each waits to be told."""
        spec = {"under": str(self.home), "blow": blow, "seconds": _PATIENCE}
        scratch = Path(tempfile.mkdtemp(prefix="engine-", dir=self.root))
        program = [sys.executable, "-m", "crash.acts", str(scratch), *acts]
        with log.open("wb") as output:
            tracer = subprocess.Popen(
                [sys.executable, "-m", "crash.tracer", json.dumps(spec), "--", *program],
                env={
                    "SPARK_SUBMIT_OPTS": SHORT_LIVED,
                    **os.environ,
                    **environment(self.settings),
                    "PYTHONPATH": str(Path(__file__).parents[1]),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        return Program(tracer, scratch)


@dataclass(frozen=True, slots=True)
class Program:
    """An act in a process of its own, whose engine starts; the act itself has not begun."""

    tracer: subprocess.Popen[bytes]
    scratch: Path

    def finish(self) -> dict[str, Any]:
        """Let the act begin; what the tracer says when the program has ended."""
        return self._ended(b"go\n")

    def carry_out(self, number: int) -> bool:
        """Let one of several acts begin, and wait for its end; False if the program has ended before."""
        assert self.tracer.stdin is not None
        self.tracer.stdin.write(b"go\n")
        self.tracer.stdin.flush()
        while not (self.scratch / f"ended-{number}").exists():
            if self.tracer.poll() is not None:
                return False
            time.sleep(0.05)
        return True

    def stop(self) -> None:
        """End the program without the act."""
        self.end()

    def end(self) -> dict[str, Any]:
        """No further act; what the tracer says."""
        return self._ended(b"")

    def _ended(self, word: bytes) -> dict[str, Any]:
        said, _ = self.tracer.communicate(word, timeout=2 * _PATIENCE)
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self.tracer.returncode:
            raise subprocess.CalledProcessError(self.tracer.returncode, self.tracer.args)
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found


def _parcel(number: int) -> bytes:
    said = {"specversion": "1.0", "id": str(number), "source": "/sweep", "type": "parcel.seen", "subject": "parcel"}
    return json.dumps({**said, "time": "2013-01-01T12:00:00Z", "data": {"n": number * 4}}).encode()


def project(root: Path) -> Path:
    """The sample project with both versions of one view, and those of the gallery's that are of other kinds."""
    jobs, target = project_root() / "spark_jobs", root / "project" / "spark_jobs"
    views = target / "views"
    views.mkdir(parents=True)
    shutil.copytree(jobs / "contracts", target / "contracts", ignore=shutil.ignore_patterns("gallery", "__pycache__"))
    (target / "contracts" / "parcels.py").write_text(_PARCELS)
    for source in (*jobs.glob("views/*.py"), *jobs.glob("next/*.py"), jobs / "views" / "gallery" / "patterns.py"):
        shutil.copy(source, views)
    return root / "project"


def free_ports(count: int) -> list[int]:
    """So many that nobody listens on now: below those that outgoing connections take, and not those of other tests."""
    found = list[int]()
    for port in range(25_000, 30_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free port")


@contextmanager
def world(root: Path, ports: Sequence[int]) -> Iterator[World]:
    """A broker on the first two ``ports``, and an empty home beside it."""
    kafka, controller, *_ = ports
    broker = Settings(home=root / "broker", bootstrap_servers="", kafka_port=kafka, kafka_controller_port=controller)
    (root / "home").mkdir(parents=True)
    with lifecycle.running(broker, ["kafka"]) as running:
        settings = running.model_copy(
            update={
                "home": root / "home",
                "project": project(root),
                "shuffle_partitions": 2,
                "max_offsets_per_trigger": _BATCH,
                "spark_driver_memory": "1g",
            }
        )
        yield World(root, settings)
