"""The platform's programs as the supervisor and Airflow run them, each in a process of its own, and their kills."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import psutil
from anabranch.certify.reconciliation import reconcile
from anabranch.change.dirty_partitions import dirty_partitions
from anabranch.change.migrate.migration_record import migration_of
from anabranch.change.replay.state import CERTIFYING, PUBLISHED, STREAMING, read_state
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.manifest import manifest_path, parse_days
from anabranch.compute.batch.rebuild import rebuild
from anabranch.core.errors import EXIT_NEEDS_FIX
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import landed_days
from anabranch.lake import latest_commit
from anabranch.lake.cut import Cut, parse_epochs
from anabranch.lake.files import BUILDS
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import Registry, View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.project import Project
from faults.bank.customers import TOPIC
from support.processes import alive, eventually
from support.real_programs import Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parent / "project"
PROGRAMS = ("landing", "speed", "rebuild", "replay")
_PLAN = "plan"
_TRIES = 4
"""As often as Airflow tries a task."""
_DELAY_SECONDS = 0.3
"""A kill comes at a random moment within this time after its stage was reached."""


@dataclass(frozen=True, slots=True)
class Job:
    """A program that ends by itself, and what it works on."""

    program: str
    view: str
    version: int
    run: str
    arguments: Sequence[str] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.program} {self.view} v{self.version} ({self.run})"


def _phase(settings: Settings, job: Job) -> str:
    standing = read_state(VersionRef(settings, job.view, job.version), job.run)
    return standing.phase if standing is not None else ""


def _has_moved(settings: Settings, job: Job) -> bool:
    found = migration_of(settings, job.view)
    return found is not None and found[1].active and found[1].share > 0


def _is_staged(settings: Settings, job: Job) -> bool:
    return any((Path(VersionRef(settings, job.view, job.version).batch_table) / BUILDS).glob(f"{job.run}-*"))


STAGES: Final[Mapping[str, Callable[[Settings, Job, str], bool]]] = MappingProxyType({
    "started": lambda settings, job, output: True,
    "staged": lambda settings, job, output: _is_staged(settings, job),
    "built": lambda settings, job, output: manifest_path(VersionRef(settings, job.view, job.version), job.run).exists(),
    "publishing": lambda settings, job, output: "publishing\n" in output,
    "streaming": lambda settings, job, output: _phase(settings, job) == STREAMING,
    "certifying": lambda settings, job, output: _phase(settings, job) == CERTIFYING,
    "moved": lambda settings, job, output: _has_moved(settings, job),
})  # fmt: skip
"""Whether a job has reached a stage; ``output`` is what it has printed."""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to ``target`` once a job of ``program`` has reached ``stage``: to all its processes, only to its Python,
    or only to its JVM. ``down``: a stream is started again only after the whole run. Before ``plan``, that makes it lag
    behind what the run publishes."""

    program: str
    stage: str
    target: Literal["job", "landing", "speed"] = "job"
    how: Literal["all", "python", "jvm"] = "all"
    down: bool = False


def made_project(folder: Path, versions: int) -> Path:
    """The bank's contracts and steps, so many versions of its views, and the platform's own programs."""
    left_out = ("bank_2.py",) if versions == 1 else ()
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__", *left_out))
    for name in PROGRAMS:
        shutil.copy(project_root() / "spark_jobs" / f"{name}.py", folder / "spark_jobs")
    return folder


@dataclass
class Operations:
    """``killed`` lists the kills, in order; ``crashed`` the streams that ended although nobody had killed them.
    ``spark``: a session to rebuild in, when no rebuild is killed; otherwise each rebuild is a process."""

    settings: Settings
    spark: SparkSession | None = None
    killed: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    _streams: dict[str, Process] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)
    _orphans: list[psutil.Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._runs, self._random = count(1), Random(7)

    @cached_property
    def registry(self) -> Registry:
        return Project(self.settings).readable_views()

    def start(self, name: str) -> None:
        self._down.discard(name)
        self._streams[name] = Process(self.settings, name)

    def end(self) -> None:
        """End all streams, and each JVM that has outlived its Python."""
        for stream in self._streams.values():
            stream.end()
        for process in self._orphans:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def is_open(self) -> bool:
        """Whether every view has committed something."""
        return all(cut.epoch(TOPIC) for cut in self._cuts)

    def is_level(self) -> bool:
        """Whether every view covers landing's newest epoch."""
        landed = latest_commit(landing_table(self.settings, TOPIC))
        return landed is not None and all(cut.covers(landed.note.cut) for cut in self._cuts)

    @property
    def _cuts(self) -> list[Cut]:
        found = [
            latest_commit(VersionRef(self.settings, view.name, view.version).speed_table) for view in self.registry
        ]
        return [each.note.cut if each is not None else Cut() for each in found]

    def reprocess(self, view: str, version: int, *kills: Kill) -> None:
        """Plan, rebuild, certify and publish all days that have events."""
        self._reprocess(view, version, self._days(view, version), kills)

    def repair(self, view: str, version: int, *kills: Kill) -> None:
        """The same for the published days that got more events since. On a slow machine these may all be over, and have
        no news: then for all days."""
        dirty = dirty_partitions(self.registry.handle(self.settings, self.registry.get(view, version)))
        self._reprocess(view, version, [each.partition for each in dirty] or self._days(view, version), kills)

    def _days(self, view: str, version: int) -> list[date]:
        span = landed_days(self.settings, self.registry.topic(self.registry.get(view, version)))
        assert span is not None
        return [date.fromordinal(number) for number in range(span[0].toordinal(), span[1].toordinal() + 1)]

    def _reprocess(self, view: str, version: int, days: Sequence[date], kills: Sequence[Kill]) -> None:
        declared, run = self.registry.get(view, version), f"run-{next(self._runs)}"
        for kill in (kill for kill in kills if kill.program == _PLAN):
            self._kill(self._streams[kill.target], kill, Job(_PLAN, view, version, run, ()))
            eventually(lambda: not self.is_level())
        asked = ReprocessRequest(tuple(days), {}, explicit=True)
        plan = make_plan(self.registry.handle(self.settings, declared), asked).to_json() | {"run": run}
        path = self.settings.home / f"{run}.json"
        path.write_text(json.dumps(plan))
        if self.spark is not None:
            self._rebuild(self.spark, declared, plan)
        else:
            flags = ("view", "version", "run", "days", "cut", "fingerprint", "events", "late")
            arguments = [text for name in flags for text in (f"--{name}", str(plan[name]))]
            self._run(Job("rebuild", view, version, run, arguments), kills)
        self._run(Job("publish", view, version, run, [str(path)]), kills)
        self._restart()

    def _rebuild(self, spark: SparkSession, view: View, plan: Mapping[str, Any]) -> None:
        topics, run, days = self.registry.topic(view), plan["run"], parse_days(plan["days"])
        self.registry.register(spark, self.settings, [view])
        build = rebuild(spark, ViewHandle(self.settings, view, topics), days, run, parse_epochs(plan["cut"]))
        reconcile(spark, ViewHandle(self.settings, view, topics), run, build)

    def replay(self, view: str, version: int, *kills: Kill) -> None:
        """Replay the whole view, at full speed."""
        run = f"run-{next(self._runs)}"
        job = Job(
            "replay", view, version, run, ["--view", view, "--version", str(version), "--run", run, "--share", "1"]
        )
        self._run(job, kills)
        assert _phase(self.settings, job) == PUBLISHED, job
        self._restart()

    def migrate(self, view: str, share: int, *kills: Kill) -> None:
        """Lead so many percent of the readers to version 2."""
        self._run(Job("migrate", view, 2, f"to-{share}", [view, str(share)]), kills)
        self._restart()

    def _run(self, job: Job, kills: Sequence[Kill]) -> None:
        """Until it has succeeded: a job that was killed is started again, one that failed is tried again."""
        waiting, tries = [kill for kill in kills if kill.program == job.program], _TRIES
        while True:
            process = Process(self.settings, job.program, None, job.arguments)
            try:
                was_killed = self._wait(process, job, waiting)
                code = process.popen.wait(60)
            finally:
                process.end()
            if code == 0:
                return
            tries -= not was_killed
            assert was_killed or (tries and code != EXIT_NEEDS_FIX), process.said[-4_000:]

    def _wait(self, process: Process, job: Job, waiting: list[Kill]) -> bool:
        """Until the job has ended; whether it was killed."""
        while process.popen.poll() is None:
            self._check_streams()
            if waiting and STAGES[waiting[0].stage](self.settings, job, process.said):
                kill = waiting.pop(0)
                time.sleep(self._random.uniform(0, _DELAY_SECONDS))
                self._kill(process if kill.target == "job" else self._streams[kill.target], kill, job)
                if kill.target == "job":
                    return True
            time.sleep(0.02)
        return False

    def _kill(self, target: Process, kill: Kill, job: Job) -> None:
        members = target.members()
        chosen = {"all": members, "python": members[:1], "jvm": [each for each in members if _is_jvm(each)]}
        killed = chosen[kill.how] or members  # its JVM may not run yet
        self._orphans += members
        for process in killed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # A Python without its JVM ends by itself, within its hang limit at the latest.
        target.popen.wait(180)
        if killed:
            name = job.program if kill.target == "job" else kill.target
            self.killed.append(f"{name} ({kill.how}) at {job}, {kill.stage}")
        if kill.target != "job":
            self._down.add(kill.target)
            if not kill.down:
                self.start(kill.target)

    def _check_streams(self) -> None:
        for name, stream in list(self._streams.items()):
            if name not in self._down and stream.popen.poll() is not None:
                self.crashed.append(f"{name}: {stream.said[-2_000:]}")
                self.start(name)

    def _restart(self) -> None:
        for name in sorted(self._down):
            self.start(name)


def _is_jvm(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return alive(process) and "java" in process.name()
    return False
