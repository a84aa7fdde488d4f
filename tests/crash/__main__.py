"""Kill every commit, and write down what came of it.

    python -m crash [--tries 3] [--only 'batch: .*'] [--sample 20] [--minutes 60] [--seed 7] [--report FILE]

It prepares a broker and a platform in a folder of its own, finds every point by carrying each act out once, and tries
each of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from crash.acts import ACTS, Stage
from crash.report import page
from crash.sweep import Outcome, Point, drawn, points, sweep, tries
from crash.world import free_ports, world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=3, help="of each point")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="acts whose name this matches")
    parser.add_argument("--sample", type=int, help="only so many points, drawn at random")
    parser.add_argument("--minutes", type=float, help="no further try after so many")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--report", type=Path, help="where the page is written")
    asked = parser.parse_args()
    begun, made = time.monotonic(), list[Outcome]()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="anabranch-crash-") as folder, world(Path(folder), free_ports()) as place:
        stage = Stage(place.settings, place.session())
        try:
            rng, found = Random(asked.seed), dict[Point, int]()
            for act in filter(asked.only.match, ACTS):
                place.prepare(stage, ACTS[act].prepared)
                known = points(place, act, place.root / "whole.log")
                found |= known
                print(f"{time.monotonic() - begun:.0f} s: {act} has {len(known)} points", flush=True)
            if asked.sample is not None:
                found = drawn(found, asked.sample, rng)
            chosen = list(tries(found, asked.tries, rng))
            for done in sweep(place, stage, chosen, lambda line: print(line, flush=True)):
                made.append(done)
                if asked.minutes and time.monotonic() - begun > asked.minutes * 60:
                    break
        except KeyboardInterrupt:
            print("stopped: the report is of what was tried until here")
        finally:
            stage.spark.stop()
    if asked.report and made:
        asked.report.write_text(page(made, asked.seed))
    bad = [each for each in made if each.wrong]
    hit = {each.made.point for each in made if each.killed}
    kills, minutes = sum(each.killed for each in made), (time.monotonic() - begun) / 60
    print(f"{kills} kills at {len(hit)} points in {minutes:.0f} min; {len(bad)} left something")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
