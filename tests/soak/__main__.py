"""The platform, left alone for half an hour: a steady load, random kills, and work that goes on.

python -m soak [--minutes 30] [--rate 300] [--seed 7] [--report FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from anabranch.contracts import load_declarations
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.maintenance import maintain
from anabranch.operate.maintenance._report import DAY, Policy
from anabranch.operate.runtime import lifecycle
from anabranch.serve.routes import share_of
from anabranch.views import load_views
from anabranch_samples.demo.change import deploy, own_project
from crash.world import free_ports
from support.checkout import commit, today

from soak.acts import VIEW
from soak.commands import command
from soak.judging import Worked, commanded
from soak.kills import kill
from soak.load import Load
from soak.report import Soak, page
from soak.watching import TOPIC, behind, covered, look
from soak.works import Works

_LOOK = 15.0
_CALM = 120.0
"""Seconds at the end without a kill: freshness has to come back."""
_ROWS = 25
"""Partitions of each half that the doctor computes anew."""
_LONGEST = 1_800.0
"""Seconds that the doctor may take."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=300, help="events a second")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--report", type=Path, help="where the page is written")
    asked = parser.parse_args()
    soak = Soak(asked.seed, asked.rate, asked.minutes, date=today(), commit=commit())
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="anabranch-soak-") as folder:
        Path(folder).chmod(0o755)  # Postgres, which root runs as another user, has to reach it
        settings = _platform(Path(folder))
        try:
            with lifecycle.running(settings):
                _left_alone(soak, settings)
            maintain(settings, Policy(now=time.time() + 31 * DAY))
            last = look(settings, VIEW, 0)
            soak.expired = (last.files, last.bytes)
        finally:
            if asked.report and soak.samples:
                asked.report.write_text(page(soak))
    wrong = list(soak.wrong())
    print("\n".join(wrong) or "nothing is wrong", flush=True)
    return 1 if wrong else 0


def _platform(home: Path) -> Settings:
    names = ("kafka_port", "kafka_controller_port", "postgres_port", "airflow_port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    settings = own_project(load_settings(home=home, bootstrap_servers="", **ports))
    deploy(settings)
    return settings


def _left_alone(soak: Soak, settings: Settings) -> None:
    rng, begun = Random(soak.seed), time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - begun:5.0f} s: {text}", flush=True)

    load = Load(settings, soak.rate, soak.minutes * 60, soak.seed)
    works = Works(settings, load, Random(soak.seed + 1), begun, tell)
    soak.works = works.done
    load.start()
    works.start()
    next_kill = time.monotonic() + rng.uniform(60, 120)
    while load.sending:
        now = time.monotonic() - begun
        soak.samples.append(sample := look(settings, VIEW, now))
        used = ", ".join(
            f"{part} ({', '.join(f'{name}: {used / 1e6:,.0f}' for name, used in each.items())})"
            for part, each in sample.processes.items()
        )
        tell(
            f"{load.sent:,} sent, {sample.behind} behind, {sample.named:,} files of {sample.partitions:,} partitions, "
            f"MB: {used}"
        )
        if time.monotonic() > next_kill and now < soak.minutes * 60 - _CALM:
            soak.killed.append((now, kill(settings, rng)))
            tell(f"killed: {soak.killed[-1][1]}")
            next_kill = time.monotonic() + rng.uniform(60, 120)
        load.wait(_LOOK)
    told = load.join()
    soak.sent = told.total
    last = time.monotonic()
    while behind(settings, VIEW) != 0 and time.monotonic() < last + 600:
        time.sleep(0.2)
    soak.level_seconds = time.monotonic() - last
    tell(f"level after {soak.level_seconds:.1f} s")
    works.stop()
    soak.landed = sum(covered(landing_table(settings, topic), topic) for topic in (TOPIC, "weather"))
    for view, version in _read_by_somebody(settings):
        works.keep(works.acts.missing(view, version))
    works.keep(_judge(soak, settings, load, begun))
    tell(f"the doctor says {soak.doctor or 'nothing'}")


def _read_by_somebody(settings: Settings) -> list[tuple[str, int]]:
    """Every version with days that has readers: a late event that none of its halves holds is one that they miss."""
    jobs = settings.project / "spark_jobs"
    views = load_views(jobs / "views", load_declarations(jobs / "contracts"))
    return [(v.name, v.version) for v in views if not v.kappa and share_of(VersionRef(settings, v.name, v.version))]


def _judge(soak: Soak, settings: Settings, load: Load, begun: float) -> Worked:
    """With the user's own command, beside everything that runs."""
    at = time.monotonic()
    said = command(settings, "doctor", "--json", "--rows", str(_ROWS), "--sent", str(load.file), seconds=_LONGEST)
    text = said.text
    try:
        report = json.loads(said.output)
    except ValueError:
        soak.doctor.append(said.errors[-2_000:] or "no report")
    else:
        soak.doctor += [json.dumps(each) for each in (*report["findings"], *report["unseen"])]
        text = f"{len(report['findings'])} findings, {len(report['unseen'])} not looked at"
    ended = commanded(said.code, text)
    return Worked("command: doctor", ended.state, ended.wanted, time.monotonic() - at, ended.note, at - begun)


if __name__ == "__main__":
    sys.exit(main())
