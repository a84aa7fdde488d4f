"""Makes the home of an older version that ``tests/system/test_old_home.py`` opens: run by the code of commit 46c6225.

    git clone . /tmp/old && cd /tmp/old && git checkout 46c6225 && make setup
    .venv/bin/python make_home_46c6225.py FOLDER home_46c6225.tar.xz   # this file and read_home_46c6225.py, copied

It works with the platform of that commit and nothing of ours: real broker, streams and jobs, a few hundred events of
the sample domain. FOLDER/project gets a project with its home, and expected.json, what that code read from it in the
end; both go into the archive. What it leaves under way: a build that is certified but not published, a
migration at 25 %, two replays whose processes were killed, and records in the log that have not landed.

Left out of the archive: what describes processes that have ended (run, logs, locks, tmp), reports (data_docs), JARs'
caches, and the broker's indexes, which it makes anew. Absolute paths (those of the replays' mirrors) are stored as
``@PROJECT@`` and set when the archive is unpacked (``old_home.unpack``)."""

from __future__ import annotations

import json
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import anabranch
import polars as pl
from anabranch.airflow.registered import project_views
from anabranch.change.gates import Promise
from anabranch.change.migration import advance, migration_of, start
from anabranch.control import lifecycle
from anabranch.errors import TryAgain
from anabranch.landing.loss import accept_loss
from anabranch.log import ensure_topics
from anabranch.log.admin import end_offsets
from anabranch.maintenance.running import maintain
from anabranch.samples.faults import Faults, inject
from anabranch.samples.flights import flight_events
from anabranch.serving import failed_reads

from house_46c6225 import CHECKOUT, DAYS, FIRST, House, evolve_weather
from read_home_46c6225 import CANCELLED_REPLAY, PUBLISHED_REPLAY, READERS, STAGED, TOPICS, VIEWS, expected, pack

ONE_IN = 22
"""The flights that are taken."""
NOONS = [datetime(2013, 1, n, 12, tzinfo=UTC) for n in (2, 3, 4)]
_PUBLISHED = pl.col("publish_time")


def sample(house: House) -> pl.DataFrame:
    """Every so many flights of three days, the weather, and what makes logs hard."""
    events = flight_events(FIRST, len(DAYS), house.declared).filter(pl.col("key").hash(7) % ONE_IN == 0)
    weather = flight_events(FIRST, len(DAYS), house.declared).filter(pl.col("topic") == "weather").gather_every(4)
    both = pl.concat([events.filter(pl.col("topic") == "flights"), weather]).sort("publish_time", maintain_order=True)
    faults = Faults(duplicates=0.03, conflicts=0.01, malformed=0.02, broken_contracts=0.02, days_late=0.05)
    return inject(both, faults, 7)


def first_day(house: House, events: pl.DataFrame) -> None:
    ensure_topics(house.settings, house.declared, TOPICS)
    house.send(events.filter(_PUBLISHED < NOONS[0]))
    house.land()


def lost_weather(house: House, events: pl.DataFrame) -> None:
    """The log loses weather that has not landed; somebody accepts that."""
    house.send(events.filter((_PUBLISHED >= NOONS[0]) & (_PUBLISHED < NOONS[1])))
    (end,) = end_offsets(house.settings, "weather").values()
    house.delete_before("weather", 0, end - 6)
    accept_loss(house.settings, house.declared.topic("weather"), "the broker's disk was full")
    house.land()


def first_version(house: House, _: pl.DataFrame) -> None:
    house.speed(tuple(view for view in VIEWS if view != ("departure_delays", 2)))
    house.build(1, DAYS[:2], "run-1")
    maintain(house.settings)


def second_version(house: House, events: pl.DataFrame) -> None:
    shutil.copy(CHECKOUT / "spark_jobs/next/departure_delays_v2.py", house.settings.project / "spark_jobs/views")
    evolve_weather(house.settings.project)
    house.send(events.filter((_PUBLISHED >= NOONS[1]) & (_PUBLISHED < NOONS[2])))
    house.send_stations()
    house.land()
    house.speed(VIEWS)


def builds(house: House, _: pl.DataFrame) -> None:
    house.build(2, DAYS, "run-2")
    house.build(1, DAYS[2:], "run-3")
    planned = house.build(1, DAYS[1:2], STAGED, publish=False)
    (house.folder / "plan.json").write_text(json.dumps(planned))


def migration(house: House, _: pl.DataFrame) -> None:
    settings, registry = house.settings, project_views(house.settings)
    old, new = (registry.get("departure_delays", version) for version in (1, 2))
    promise = Promise(changed=("delayed",), checks=("flights >= delayed",))
    start(
        settings, old, new, by="anna", why="by carrier", steps=(5, 25, 100), soak_seconds=1, promise=promise, run="m-1"
    )
    for _ in range(2):
        advance(settings, old, new, by="run m-1")
        time.sleep(1.5)
    found = migration_of(settings, "departure_delays")
    assert found is not None
    assert found[1].share == 25, found
    for reader in READERS:
        anabranch.read("departure_delays", reader=reader, settings=settings)
        anabranch.read("aircraft_now", reader=reader, settings=settings)
    failed = TryAgain("READING_EXPIRED", "a file is gone", next_step="read again")
    failed_reads.keep(settings, "departure_delays", 1, "carla", failed)


def replays(house: House, _: pl.DataFrame) -> None:
    house.replay("aircraft_now", PUBLISHED_REPLAY)
    house.replay("hour_and_weather", CANCELLED_REPLAY)


def not_landed(house: House, events: pl.DataFrame) -> None:
    house.send(events.filter(_PUBLISHED >= NOONS[2]))
    assert not house.landed()


STAGES = (first_day, lost_weather, first_version, second_version, builds, migration, replays, not_landed)


def make(house: House) -> None:
    """Each stage once: a run that failed goes on where it was, when it is started again."""
    done, events = house.folder / "stages", sample(house)
    done.touch()
    for stage in STAGES:
        if stage.__name__ not in done.read_text().split():
            print(f"{datetime.now(UTC):%H:%M:%S} {stage.__name__}", flush=True)
            stage(house, events)
            done.write_text(f"{done.read_text()} {stage.__name__}")


def main() -> None:
    folder, file = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    house = House(folder)
    with lifecycle.running(house.settings, ["kafka"]):
        make(house)
        found = expected(folder, house.settings, house.declared)
    (folder / "project/expected.json").write_text(json.dumps(found, indent=1, default=str))
    pack(folder, file)


if __name__ == "__main__":
    main()
