"""The platform of commit 46c6225 as ``make_home_46c6225.py`` runs it: a project, its streams and its jobs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import anabranch
import polars as pl
from anabranch.airflow.publishing import publish_run, remember
from anabranch.airflow.registered import registered
from anabranch.change.parameters import Asked
from anabranch.change.plan import make_plan
from anabranch.control.environment import environment
from anabranch.events import Event, load_declarations
from anabranch.events.declarations import Declarations
from anabranch.log import Producer
from anabranch.log.admin import Admin, end_offsets
from anabranch.replay.pace import Pace as WishedPace
from anabranch.replay.standing import Wish, set_wish, standing_of
from anabranch.samples.publishing import Pace, publish
from anabranch.settings import Settings
from anabranch.tables import newest
from anabranch.tables.layout import landing_table, speed_table
from confluent_kafka import TopicPartition

from read_home_46c6225 import CANCELLED_REPLAY, TOPICS

CHECKOUT = Path(anabranch.__file__).parents[2]
FIRST = date(2013, 1, 1)
DAYS = (FIRST, date(2013, 1, 2), date(2013, 1, 3))
WEATHER_VIEW = '''"""How windy it was when flights left: two topics, read as one."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="hour_and_weather",
    version=1,
    events=["flight.departed", "weather.observed"],
    key=["origin", "hour"],
    partition_by="hour",
)
def hour_and_weather(departed: DataFrame, observed: DataFrame) -> DataFrame:
    """Departures and observations per hour and airport."""
    both = departed.select("event_time", "origin", F.lit(1).alias("left"), F.lit(0).alias("seen")).unionByName(
        observed.select("event_time", "origin", F.lit(0).alias("left"), F.lit(1).alias("seen"))
    )
    hourly = both.groupBy(F.window("event_time", "1 hour").alias("w"), "origin").agg(
        F.sum("left").alias("departed"), F.sum("seen").alias("observed")
    )
    return hourly.select("origin", F.col("w.start").alias("hour"), "departed", "observed")
'''

STATION = '''
def with_station(old: dict) -> dict:
    """Stations were not named before."""
    from pyspark.sql import functions as F

    return {"station": F.concat_ws("-", old["origin"], F.lit("main"))}


STATION = Upcaster("weather.observed", 1, with_station)
'''


def make_project(target: Path) -> None:
    """Contracts and views of the sample, with a log that is kept for a hundred years: a fixture may grow old."""
    jobs = target / "spark_jobs"
    shutil.copytree(CHECKOUT / "dags", target / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    jobs.mkdir()
    for main in CHECKOUT.glob("spark_jobs/*.py"):
        shutil.copy(main, jobs)
    contracts = jobs / "contracts"
    shutil.copytree(
        CHECKOUT / "spark_jobs/contracts", contracts, ignore=shutil.ignore_patterns("__pycache__", "gallery")
    )
    declared = (contracts / "flights.py").read_text()
    declared = declared.replace("days=30", "days=36_500").replace(
        "import Contract, Topic", "import Contract, Topic, Upcaster"
    )
    (contracts / "flights.py").write_text(declared)
    views = jobs / "views"
    views.mkdir()
    for name in ("departure_delays", "aircraft_now"):
        shutil.copy(CHECKOUT / f"spark_jobs/views/{name}.py", views)
    gallery = (CHECKOUT / "spark_jobs/views/gallery/patterns.py").read_text()
    head, rest = gallery.partition("\n\n@view(")[0], gallery.partition("class Turns:")[2]
    (views / "turns.py").write_text(f"{head}\n\nclass Turns:{rest.partition('@view(')[0]}@view({_of_turns(rest)}")
    (views / "hour_and_weather.py").write_text(WEATHER_VIEW)


def _of_turns(rest: str) -> str:
    return rest.partition("@view(")[2].partition("\n\n\n@view(")[0] + "\n"


def evolve_weather(project: Path) -> None:
    """A second version of a contract, with a step from the first one."""
    contracts = project / "spark_jobs/contracts"
    content = json.loads((contracts / "weather.observed.v1.json").read_text())
    content["version"] = 2
    content["schema"]["properties"]["station"] = {"type": "string"}
    (contracts / "weather.observed.v2.json").write_text(json.dumps(content, indent=2))
    declared = (contracts / "flights.py").read_text()
    both = '(_contract("weather.observed"), _contract("weather.observed", 2)),\n    upcasters=(STATION,),'
    declared = declared.replace('(_contract("weather.observed"),),', both)
    (contracts / "flights.py").write_text(declared.replace("\n\nFLIGHTS =", f"\n\n{STATION}\n\nFLIGHTS ="))
    sys.modules.pop("anabranch_declared_contracts_flights", None)  # this process has loaded it before


def write_settings(target: Path, settings: Settings) -> None:
    """``anabranch.env`` with every setting that this commit knows."""
    kept = {"home", "project", "jars", "kafka_password", "kafka_port", "kafka_controller_port", "postgres_port"}
    lines = [
        f"ANABRANCH_{name.upper()}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in settings.model_dump(mode="json", exclude_none=True).items()
        if name not in kept | {"airflow_port"}
    ]
    (target / "anabranch.env").write_text("\n".join(lines) + "\n")


class House:
    """One platform, its jobs and streams as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        project = folder / "project"
        if not project.exists():
            make_project(project)
        ports = {"kafka_port": 24_190, "kafka_controller_port": 24_191, "postgres_port": 24_192, "airflow_port": 24_193}
        small = {"max_offsets_per_trigger": 60, "spark_driver_memory": "1g", "approval_events": 2_000}
        given = {"project": project, "home": project / ".anabranch", "jars": CHECKOUT / ".jars"}
        self.settings = Settings(**given, **ports, **small)  # type: ignore[arg-type]
        write_settings(project, self.settings)
        self.sent = 0

    @property
    def declared(self) -> Declarations:
        return load_declarations(self.settings.project / "spark_jobs/contracts")

    def send(self, events: pl.DataFrame) -> None:
        self.sent += 1
        with Producer(self.settings, self.declared) as producer:
            publish(producer, events, self.settings.home / f"produced/{self.sent}.parquet", Pace())

    def send_stations(self) -> None:
        """Weather by the second version of its contract."""
        at = datetime(2013, 1, 4, 6, tzinfo=UTC)
        with Producer(self.settings, self.declared) as producer:
            for origin in ("EWR", "JFK", "LGA"):
                data = {"origin": origin, "station": f"{origin}-north"}
                schema = "urn:anabranch:contract:weather.observed:2"
                producer.send(Event(f"station-{origin}", "/stations", "weather.observed", origin, at, data, schema))

    @contextmanager
    def process(self, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        self.settings.logs.mkdir(parents=True, exist_ok=True)
        with (self.settings.logs / f"{name}-{time.time_ns()}.log").open("wb") as output:
            started = subprocess.Popen(
                [sys.executable, str(self.settings.project / f"spark_jobs/{name}.py"), *arguments],
                cwd=self.settings.project,
                env={**os.environ, **environment(self.settings), "PYTHONPATH": str(CHECKOUT / "platform")},
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield started
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()

    def job(self, name: str, *arguments: str) -> None:
        with self.process(name, *arguments) as job:
            assert job.wait(400) == 0, f"{name} failed: read {self.settings.logs}"

    def landed(self) -> bool:
        for topic in TOPICS:
            committed = newest(landing_table(self.settings, topic))
            if committed is None or committed.note.cut.positions[topic].offsets != end_offsets(self.settings, topic):
                return False
        return True

    def level(self, views: tuple[tuple[str, int], ...]) -> bool:
        found = [newest(speed_table(self.settings, *view)) for view in views]
        landed = {t: newest(landing_table(self.settings, t)) for t in TOPICS}
        return all(
            each is not None
            and each.note.cut.positions
            and all(each.note.cut.epoch(t) >= landed[t].note.cut.epoch(t) for t in each.note.cut.positions)
            for each in found
        )

    def land(self) -> None:
        with self.process("landing"):
            eventually(self.landed)

    def speed(self, views: tuple[tuple[str, int], ...]) -> None:
        with self.process("speed"):
            eventually(lambda: self.level(views))

    def build(self, version: int, days: tuple[date, ...], run: str, publish: bool = True) -> dict[str, Any]:
        """Steps of the DAG; the plan, as its first step hands it on."""
        began = time.monotonic()
        view, topics = registered(self.settings, "departure_delays", version)
        plan = make_plan(self.settings, view, topics, Asked(days, {}, explicit=True))
        named = ("--view", view.name, "--version", str(version), "--run", run)
        self.job("rebuild", *named, "--days", ",".join(map(str, days)), "--cut", str(plan.cut))
        self.job("reconcile", *named)
        planned = {**plan.to_json(), "text": plan.to_text(), "run": run}
        if publish:
            done = publish_run(self.settings, planned)
            assert len(done["published"]) == len(days), done
            remember(self.settings, planned, {**done, "seconds": round(time.monotonic() - began, 1)})
        return planned

    def replay(self, view: str, run: str) -> None:
        """Started, held to a slow pace, and killed once it has given something out."""
        named = ("--view", view, "--version", "1", "--run", run)
        with self.process("replay", *named, "--speed", "2000", "--share", "1"):
            eventually(lambda: (known := standing_of(self.settings, view, 1, run)) is not None and known.done)
        known = standing_of(self.settings, view, 1, run)
        assert known is not None
        assert 0 < known.done < known.total, known
        # What people have asked for since: one is to go on as fast as it can, the other one is cancelled.
        cancelled_by = "bert" if run == CANCELLED_REPLAY else ""
        set_wish(self.settings, known, Wish(WishedPace(1.0, 0.0), cancelled_by))

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        admin = Admin(self.settings)  # kept: without it nobody reads the answer
        (answer,) = admin.delete_records([TopicPartition(topic, partition, offset)]).values()
        answer.result(timeout=20)


def eventually(holds: Callable[[], Any], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "nothing comes of it"
        time.sleep(0.2)
