"""Days done again as people do it: from the click in Airflow until they are published, by a whole platform."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median

import polars as pl
import psutil
from anabranch.apps.airflow.client import Client, Run
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.runtime import lifecycle, process_registry
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch_samples.demo.change import own_project
from anabranch_samples.faults import Faults
from anabranch_samples.flights import flight_events
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace, publish

from benchmarks.figures import Figure, Report, Sample, Table, all_seconds
from benchmarks.latency import committed, latencies, summary
from benchmarks.live_streams import ALL_VIEWS, RATE
from benchmarks.timing import beside
from benchmarks.world import FIRST, SEED, World

VIEW = "departure_delays"
DAG = f"reprocess_{VIEW}"
STEPS = ("plan", "approve", "rebuild", "publish")
FIRST_RUN, DAY, MONTH, BUSY = "the first run of all", "a day", "a month", "a day, beside 1,000 events/s"
DAYS = 31
LONGEST = 400.0
"""Seconds that a run beside live events may take at most."""
_MEGABYTE = 2**20


IDLE, LOADED, IDLE_AGAIN = "idle", "at 1,000 events/s", "idle again, behind them"


@dataclass(frozen=True, slots=True)
class Load:
    """What the platform takes while no run goes on: of one core, and in bytes (PSS), by window."""

    cores: tuple[float, ...]
    memory: tuple[float, ...]


def run(world: World) -> Report:
    samples: dict[str, list[Sample]] = {FIRST_RUN: [], DAY: [], MONTH: [], BUSY: []}
    windows, waited = list[tuple[float, float]](), list[float]()
    events: dict[str, int] = {}
    last = FIRST + timedelta(days=DAYS - 1)

    def again(name: str, first: date, last: date) -> None:
        begun = time.time()
        run, sample = _run(client, settings, first, last)
        windows.append((begun, time.time()))
        events[name] = client.xcom(run, "plan", "events")
        samples[name].append(sample)

    with _platform(world) as settings, Client(airflow_address(settings), airflow_login(settings)) as client:
        # The first one tries the function on samples of each contract version, too.
        again(DAY if world.size == "tiny" else FIRST_RUN, FIRST, FIRST if world.size == "tiny" else last)
        loads = {IDLE: _load(IDLE, settings, world.pick((1, 2.0), (3, 10.0), (5, 30.0)))}
        if world.size != "tiny":
            for number in range(world.runs):
                day = FIRST + timedelta(days=1 + number)
                again(DAY, day, day)
                again(MONTH, FIRST, last)
        if not world.platform:  # its other users count what has landed
            with live_events(settings, world) as live:
                for number in range(world.runs):
                    day = FIRST + timedelta(days=1 + number)
                    again(BUSY, day, day)
                    if not live.is_alive():
                        raise RuntimeError("the events ended before the runs")
                # With the runs before it, eight minutes of events.
                loads[LOADED] = _load(LOADED, settings, world.pick((1, 2.0), (3, 10.0), (5, 45.0)))
            waited += _waited(settings, world, windows[-world.runs :])
            loads[IDLE_AGAIN] = _load(IDLE_AGAIN, settings, world.pick((1, 2.0), (3, 10.0), (5, 30.0)))
    return _report({name: found for name, found in samples.items() if found}, events, loads, tuple(waited))


def _waited(settings: Settings, world: World, windows: Sequence[tuple[float, float]]) -> Iterator[float]:
    """For each window: how long 99 % of the events that were appended in it waited, at most, for the commit that has
    them, in the slowest view."""
    sent = pl.read_parquet(settings.home / "produced-*.parquet", columns=["partition", "offset", "append_time"])
    ends = dict(sent.group_by("partition").agg(pl.col("offset").max()).iter_rows())
    deadline = time.monotonic() + 300
    for view in ALL_VIEWS:
        while not _seen(settings, view, world.topic.name, ends):
            _wait(deadline)
    sights = [committed(VersionRef(settings, view, 1).speed_table, world.topic.name) for view in ALL_VIEWS]
    at = pl.col("append_time").dt.epoch("us") / 1e6
    for begin, end in windows:
        within = sent.filter(at.is_between(begin, end))
        yield max(summary(latencies(within, seen))["p99"] for seen in sights)


@contextmanager
def _platform(world: World) -> Iterator[Settings]:
    """A whole one with a month of flights, all streams level with them."""
    if world.platform:
        yield world.settings
        return
    settings = own_project(world.fresh("day-again"))
    with lifecycle.running(settings):
        produce_flights(settings, FIRST, DAYS, Pace(), Faults(), SEED, quiet=True)
        _until_level(settings, world)
        yield settings
    shutil.rmtree(settings.home, ignore_errors=True)


def _until_level(settings: Settings, world: World) -> None:
    deadline = time.monotonic() + 300
    while True:
        found = latest_commit(landing_table(settings, world.topic.name))
        if found and sum(found.note.cut.positions[world.topic.name].offsets.values()):
            break
        _wait(deadline)
    for view in ALL_VIEWS:
        while not _level(settings, view, world.topic.name):
            _wait(deadline)


def _seen(settings: Settings, view: str, topic: str, ends: Mapping[int, int]) -> bool:
    """Whether the view's newest commit covers all records up to the offsets ``ends``."""
    found = latest_commit(VersionRef(settings, view, 1).speed_table)
    offsets = found.note.cut.positions[topic].offsets if found else {}
    return all(offsets.get(partition, 0) > end for partition, end in ends.items())


def _level(settings: Settings, view: str, topic: str) -> bool:
    seen, landed = (
        latest_commit(VersionRef(settings, view, 1).speed_table),
        latest_commit(landing_table(settings, topic)),
    )
    return bool(seen and landed and seen.note.cut.covers(landed.note.cut))


def _wait(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError("the streams are not level with the log")
    time.sleep(0.5)


def _run(client: Client, settings: Settings, first: date, last: date) -> tuple[Run, Sample]:
    """One run. Its seconds: from the request until the commit that readers see; stages: each step, what lies before it,
    and the rest of the run behind the publication."""
    clicked = time.time()
    run = client.trigger(DAG, {"from": first.isoformat(), "to": last.isoformat()})
    run = client.wait(run, timeout=LONGEST)
    if run.state != "success":
        logs = "".join(client.task_log(run, task) for task, state in run.tasks.items() if state == "failed")
        raise RuntimeError(f"{run.state}: {run.note} {logs[-2000:]}")
    published = latest_commit(VersionRef(settings, VIEW, 1).batch_table)
    assert published is not None
    shown = published.commit_time_ms / 1000
    path = f"/dags/{DAG}/dagRuns/{run.run_id}"
    tasks = {task["task_id"]: task for task in client.get(f"{path}/taskInstances")["task_instances"]}
    stages, before = {}, clicked
    for step in STEPS:
        begun, ended = _time(tasks[step]["start_date"]), _time(tasks[step]["end_date"])
        stages[f"before {step}"] = begun - before
        stages[step] = (shown if step == "publish" else ended) - begun
        before = ended
    stages["behind the publication"] = _time(client.get(path)["end_date"]) - shown
    shares = ", ".join(f"{step} {seconds:.1f}" for step, seconds in stages.items())
    print(f"    {first} to {last}: {shown - clicked:.1f} s ({shares})", flush=True)
    return run, Sample(shown - clicked, stages)


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _load(name: str, settings: Settings, windows: tuple[int, float]) -> Load:
    """What all processes of the platform take while no run goes on. ``windows``: how many, and their seconds."""
    time.sleep(min(20.0, 2 * windows[1]))
    cores, memory = [], []
    for _ in range(windows[0]):
        before, begun = _cpu_seconds(settings), time.monotonic()
        time.sleep(windows[1])
        cores.append((_cpu_seconds(settings) - before) / (time.monotonic() - begun))
        memory.append(float(sum(part.memory_bytes for part in lifecycle.status(settings))))
        print(f"    {name}: {cores[-1]:.2f} of a core, {memory[-1] / _MEGABYTE:,.0f} MB", flush=True)
    return Load(tuple(cores), tuple(memory))


def _cpu_seconds(settings: Settings) -> float:
    """Of each process once: the supervisor's family has those of all parts."""
    families = map(process_registry.family, process_registry.read(settings).values())
    total = 0.0
    for process in {process.pid: process for family in families for process in family}.values():
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


@contextmanager
def live_events(settings: Settings, world: World) -> Iterator[threading.Thread]:
    """Events of the months behind come into all views, at their pace, until the block ends."""
    later = FIRST + timedelta(days=DAYS + 30)
    days = world.pick(3, 365 - DAYS - 30, 365 - DAYS - 30)
    events = flight_events(later, days, world.declared).filter(topic=world.topic.name)
    stop = threading.Event()

    def send() -> None:
        with Producer(settings, world.declared) as producer:
            for number, second in enumerate(events.iter_slices(int(RATE))):
                if stop.is_set():
                    return
                publish(producer, second, settings.home / f"produced-{number}.parquet", Pace(rate=RATE))

    with beside("producer", send) as thread:
        time.sleep(world.pick(0, 30, 30))
        try:
            yield thread
        finally:
            stop.set()


def _report(
    samples: Mapping[str, Sequence[Sample]],
    events: Mapping[str, int],
    loads: Mapping[str, Load],
    waited: tuple[float, ...],
) -> Report:
    def seconds(name: str) -> tuple[float, ...]:
        return tuple(sample.seconds for sample in samples[name])

    figures = [
        Figure("day_again.idle", "one day, from the click until it is published", seconds(DAY), " s", 1, 25.0, False),
        *_load_figures("day_again", "the idle platform", loads[IDLE], 0.15, 3072.0),
    ]
    if BUSY in samples:
        what = "one day beside 1,000 events/s"
        figures.insert(1, Figure("day_again.busy", what, seconds(BUSY), " s", 1, 75.0, False))
        what = "from an event's append to its rows, beside such a run: p99 of the slowest of three views"
        figures.insert(2, Figure("day_again.freshness", what, waited, " s", 1, 10.0, False))
        figures += [
            *_load_figures("day_again.loaded", "the platform at 1,000 events/s", loads[LOADED], 1.55, 4608.0),
            *_load_figures("day_again.after", "idle, with these events in it", loads[IDLE_AGAIN], 0.15, 3072.0),
        ]
    if MONTH in samples:
        what = "a month, from the click until it is published"
        figures.insert(1, Figure("day_again.month", what, seconds(MONTH), " s", 1))
    return Report(
        "day_again",
        "Days done again, from the click until they are published",
        f"A whole platform with all its views and a month of flights; `{VIEW}`, {events[DAY]:,} events a day. A run is "
        "asked for by the API, as the UI does; its seconds are those until readers see its commit.",
        (_stages(samples), *([_costs(samples, events)] if MONTH in samples else [])),
        tuple(figures),
        (),
        {name: found for name, found in all_seconds(samples).items() if name in (DAY, MONTH, BUSY)},
    )


def _load_figures(name: str, what: str, load: Load, cores: float, megabytes: float) -> list[Figure]:
    memory = tuple(each / _MEGABYTE for each in load.memory)
    return [
        Figure(f"{name}.cpu", f"{what}, of a core", load.cores, "", 2, cores, False),
        Figure(f"{name}.memory", f"{what}: memory", memory, " MB", 0, megabytes, False),
    ]


def _stages(samples: Mapping[str, Sequence[Sample]]) -> Table:
    names = list(next(iter(samples.values()))[0].stages)
    rows = [
        (name, f"{len(found)}", *(f"{median(sample.stages[stage] for sample in found):.1f} s" for stage in names))
        for name, found in samples.items()
    ]
    return Table("Where the seconds go (medians)", ("run", "runs", *names), tuple(rows))


def _costs(samples: Mapping[str, Sequence[Sample]], events: Mapping[str, int]) -> Table:
    """A straight line through a day and a month, for each step."""
    rows = []
    for step in STEPS:
        day, month = (median(sample.stages[step] for sample in samples[name]) for name in (DAY, MONTH))
        each = max(0.0, (month - day) / (events[MONTH] - events[DAY]))
        rows.append((step, f"{day - each * events[DAY]:.1f} s", f"{each * 1e6:.1f} s"))
    return Table("Fixed cost, and cost of a million events", ("step", "fixed", "a million events"), tuple(rows))
