"""What the sweep found, as a page for people."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from anabranch.core.atomic_files import write_atomically

from crash.acts import ACTS
from crash.killed_code import code_of
from crash.sweep import Outcome, Point, Try

_HEAD = """# Crash report

Written by `make crash`. Each point is a change of a name in the file system (a rename, a link, a deletion) by which the
platform, Spark, Delta or delta-rs commits something; `<n>` stands for a number, `<id>` for a random name. SIGKILL came
exactly before it took effect, or exactly after (once each way; three times at commits of tables); of every third try
only the process that made it died, else all. A try counts until the code that it killed changes. Then
the same program was called again, with nothing done in between, the streams came to the end of the log, and it was
judged: `anabranch doctor` with each partition computed anew, landing's offsets against the broker, and served rows
against DuckDB over the producer's file. Recovery: seconds from the restart until the program had come to its end (in a
warm Spark session: a process of its own needs some seconds more).

"""

_COLUMNS = "| point | before | after | wrong | slowest recovery |\n| --- | --- | --- | --- | --- |\n"


def keep(file: Path, outcomes: Iterable[Outcome], known: Mapping[str, Collection[Point]]) -> None:
    """The points of each act, with the code that has them, then one try a line, so that a later run can go on."""
    points = {
        act: {"code": code_of(act), "points": [[point.operation, point.path] for point in sorted(found)]}
        for act, found in known.items()
    }
    lines = [{"points": points}, *map(asdict, outcomes)]
    write_atomically(file, "".join(json.dumps(line) + "\n" for line in lines))


def kept(file: Path) -> tuple[list[Outcome], dict[str, set[Point]]]:
    """What earlier runs have tried of the code as it is, and the points of each act that any of them has found: a run
    doesn't pass every one, so that the last one alone may know fewer than were killed."""
    first, *found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else [{"points": {}}]
    outcomes = [
        Outcome(**{**each, "made": Try(**{**each["made"], "point": Point(**each["made"]["point"])}),
                   "wrong": tuple(each["wrong"])})
        for each in found
    ]  # fmt: skip
    known = {
        act: {Point(act, *names) for names in each["points"]}
        for act, each in first["points"].items()
        if isinstance(each, dict) and act in ACTS and each["code"] == code_of(act)  # a number: of an earlier form
    }
    return [
        each for each in outcomes if each.made.point.act in ACTS and each.code == code_of(each.made.point.act)
    ], known


def page(outcomes: Sequence[Outcome], known: Mapping[str, Collection[Point]]) -> str:
    """The whole page. ``known``: the points of each act."""
    hit = [each for each in outcomes if each.killed]
    bad = [each for each in hit if each.wrong]
    by_act: dict[str, dict[Point, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for each in hit:
        by_act[each.made.point.act][each.made.point].append(each)
    count = sum(len(found) for found in by_act.values())
    done = sum(len(made) >= point.tries for found in by_act.values() for point, made in found.items())
    seconds = sorted(each.seconds for each in hit)
    took = f"Recovery: median {statistics.median(seconds):.1f} s, slowest {seconds[-1]:.1f} s."
    every = {act: {*known.get(act, ()), *by_act.get(act, ())} for act in {*known, *by_act}}
    kills = f"{len(hit)} kills at {count} of {sum(map(len, every.values()))} points"
    wrong = f"**{kills}: {len(bad)} left something wrong.** {done} points had all their tries. {took}\n"
    text = [_HEAD, wrong]
    commits = Counter(each.commit for each in hit)
    text.append("\nOf " + ", ".join(f"{number} at commit {commit}" for commit, number in commits.items()))
    days = Counter(each.date or "a day that is not known" for each in hit)
    text.append("; " + ", ".join(f"{number} on {day}" for day, number in sorted(days.items())) + ".\n")
    missed = len(outcomes) - len(hit)
    if missed:
        text.append(f"\n{missed} more tries came to their end without passing the point again; they don't count.\n")
    for act, found in by_act.items():
        text.append(f"\n## {act}\n\n{len(found)} of {len(every[act])} points.\n\n{_COLUMNS}")
        text += [_line(point, made) for point, made in sorted(found.items())]
    text += [f"\n- **{each.made}**: {'; '.join(each.wrong)}\n" for each in bad]
    return "".join(text)


def _line(point: Point, made: Sequence[Outcome]) -> str:
    after, wrong = (sum(each.made.after for each in made), sum(bool(each.wrong) for each in made))
    slowest = max(each.seconds for each in made)
    return f"| {point.operation} of `{point.path}` | {len(made) - after} | {after} | {wrong} | {slowest:.1f} s |\n"
