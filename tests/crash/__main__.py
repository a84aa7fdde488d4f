"""Kill every commit, and write down what came of it.

    python -m crash [--only 'batch: .*'] [--sample 20] [--minutes 60] [--seed 7] [--report FILE [--more]]

It prepares a broker and a platform in a folder of its own, finds every point by carrying each act out once, and tries
each of them.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

from support.checkout import commit, today

from crash.acts import ACTS, Stage
from crash.killed_code import code_of
from crash.report import keep, kept, page
from crash.sweep import Outcome, Point, drawn, points, sweep, tries
from crash.world import free_ports, world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="acts whose name this matches")
    parser.add_argument("--sample", type=int, help="only so many points, drawn at random")
    parser.add_argument("--minutes", type=float, help="no further try after so many")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--report", type=Path, help="where the page is written, and beside it (.jsonl) each try")
    parser.add_argument("--more", action="store_true", help="go on with what the report has of the code as it is")
    asked = parser.parse_args()
    file = asked.report.with_suffix(".jsonl") if asked.report else None
    before, known = kept(file) if file and asked.more else ([], {})
    done = Counter(each.made.point for each in before if each.killed)
    begun, made, code = time.monotonic(), list[Outcome](), commit()
    print(f"seed {asked.seed}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background of a shell, Ctrl-C would be ignored
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="anabranch-crash-") as folder, world(Path(folder), free_ports(2)) as place:
        stage = Stage(place.settings, place.session())
        try:
            rng, found = Random(asked.seed), dict[Point, int]()
            for act in filter(asked.only.match, ACTS):
                place.prepare(stage, ACTS[act].prepared)
                own = points(place, [act], place.root / "whole.log")
                known[act] = {*known.get(act, ()), *own}
                # One that an earlier run has passed and this one hasn't is tried, too.
                found |= {point: own.get(point, 1) for point in sorted(known[act])}
                print(f"{time.monotonic() - begun:.0f} s: {act} has {len(known[act])} points", flush=True)
            left = {point: count for point, count in found.items() if done[point] < point.tries}
            chosen = list(tries(drawn(left, asked.sample, rng), rng, done))
            with closing(sweep(place, stage, chosen, lambda line: print(line, flush=True))) as outcomes:
                for outcome in outcomes:
                    made.append(replace(outcome, commit=code, code=code_of(outcome.made.point.act), date=today()))
                    if asked.report and file:  # at once: a sweep of hours may be killed, too
                        keep(file, [*before, *made], known)
                        asked.report.write_text(page([*before, *made], known))
                    if asked.minutes and time.monotonic() - begun > asked.minutes * 60:
                        break
        except KeyboardInterrupt:
            print("stopped: the report is of what was tried until here")
        finally:
            stage.spark.stop()
    bad = [each for each in made if each.wrong]
    hit = {each.made.point for each in made if each.killed}
    kills, minutes = sum(each.killed for each in made), (time.monotonic() - begun) / 60
    print(f"{kills} kills at {len(hit)} points in {minutes:.0f} min; {len(bad)} left something")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
