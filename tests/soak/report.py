"""What the soak found, judged, and as a page for people."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from soak.judging import DUE, Worked
from soak.watching import Sample, halves, peak

MORE_MEMORY = 1.3
"""The most that a part's peak in the second half may be of that in the first: a killed one begins anew and is small."""
MEMORY_BOUND = 3.5e9
"""Bytes of one part: an engine's 2 GB of heap, what it keeps beside it, and Python."""
MOST_FILES = 3.0
"""Of a partition, at the mean of all tables: one that is merged, and what has come since."""
MORE_FILES = 1.5
"""At most so many times the files for each partition of the first half."""
LEVEL_SECONDS = 120.0
_SHOWN = 240
"""Characters of what a run or a command said."""
_HEAD = """# Soak report

Written by `make soak`: the whole platform with real parts, and a steady stream of flights (two years of them, with
late, doubled and broken ones). Somebody asks, by Airflow's REST API and the command line, one after the other, for an
Airflow backfill of three days, a replay of the whole view, a migration to all of its readers, and then for days again,
migrations that are led back, and repairs; beside it compactions run. Every one to two minutes a SIGKILL hits a part or
a task's engine, drawn at random. At the end all days that are missing are published, and the doctor is asked. Nothing
is mended by hand. Of each run and command it is checked how it ended, and what readers have then.
"""


@dataclass
class Soak:
    """``level_seconds``: from the last record until readers saw it. ``expired``: files and bytes below the home once 31
    days have passed for maintenance. ``date``: of its begin; ``commit``: of the code that ran."""

    seed: int
    rate: float
    minutes: float
    sent: int = 0
    landed: int = 0
    killed: list[tuple[float, str]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    works: list[Worked] = field(default_factory=list)
    level_seconds: float = 0.0
    doctor: list[str] = field(default_factory=list)
    expired: tuple[int, int] = (0, 0)
    date: str = ""
    commit: str = ""

    def wrong(self) -> Iterator[str]:
        """Everything that isn't as it must be at the end."""
        if self.sent != self.landed:
            yield f"{self.sent:,} records were sent, {self.landed:,} have landed"
        if not self.killed:
            yield "nothing was killed"
        if self.level_seconds > LEVEL_SECONDS:
            yield f"readers saw the last record {self.level_seconds:.0f} s after it was sent"
        yield from (f"the doctor says: {finding}" for finding in self.doctor)
        for each in self.works:
            if not each.wanted:
                yield f"{each.kind} ended as {each.state}: {_line(each.note)}"
        known = {each.kind for each in self.works}
        yield from (f"no {kind} was done" for kind in DUE if kind not in known)
        first, second = halves(self.samples)
        for part in sorted({name for sample in self.samples for name in sample.memory}):
            before, after = peak(first, part), peak(second, part)
            if after > MEMORY_BOUND or after > MORE_MEMORY * before + 2e8:
                yield f"{part} grew from {before / 1e6:,.0f} to {after / 1e6:,.0f} MB"
        before, after = _most(first, "merged"), _most(second, "merged")
        if after > MOST_FILES or after > MORE_FILES * before:
            yield f"tables named up to {before:.1f} data files for each partition in the first half, {after:.1f} later"


def page(soak: Soak) -> str:
    """The whole page."""
    wrong = list(soak.wrong())
    first, second = halves(soak.samples)
    asked = f"{soak.minutes:.0f} minutes at {soak.rate:,.0f} events/s"
    lines = [
        _HEAD,
        f"**{asked}, {len(soak.killed)} kills, {len(soak.works)} runs and commands: "
        + ("nothing is wrong.**" if not wrong else f"{len(wrong)} of it wrong, see below.**")
        + f" On {soak.date}, at commit {soak.commit}, with seed {soak.seed}.",
        "",
        *(f"- **wrong**: {each}" for each in wrong),
        f"- Ended as they had to: {_well(soak)}.",
        f"- {soak.sent:,} records were sent, {soak.landed:,} have landed, once each.",
        f"- Readers saw the last record {soak.level_seconds:.1f} s after it was sent. {_freshness(soak)}",
        "- The doctor, with partitions of each half computed anew, and served rows beside DuckDB's answer over all "
        + ("that was sent, is silent." if not soak.doctor else "that was sent, isn't silent."),
        "",
        "| | first half | second half |",
        "| --- | --- | --- |",
        *(
            f"| {part}: most memory, MB | {peak(first, part) / 1e6:,.0f} | {peak(second, part) / 1e6:,.0f} |"
            for part in sorted({name for sample in soak.samples for name, used in sample.memory.items() if used})
        ),
        f"| most data files that tables name | {_most(first, 'named'):,} | {_most(second, 'named'):,} |",
        f"| partitions of tables, at its end | {_last(first, 'partitions'):,} | {_last(second, 'partitions'):,} |",
        f"| most data files for each partition | {_most(first, 'merged'):.2f} | {_most(second, 'merged'):.2f} |",
        f"| files below the home, at its end | {_last(first, 'files'):,} | {_last(second, 'files'):,} |",
        f"| MB below the home, at its end | {_last(first, 'bytes') // 10**6:,} | {_last(second, 'bytes') // 10**6:,} |",
        "",
        "Files below the home are what is kept for readers, cuts and replays: 7 days of data, 30 days of commits.",
        f"After 31 days for maintenance there were {soak.expired[0]:,} files of {soak.expired[1] // 10**6:,} MB.",
        "",
        *_works(soak),
        "| second | killed |",
        "| --- | --- |",
        *(f"| {at:.0f} | {what} |" for at, what in soak.killed),
        "",
    ]
    return "\n".join(lines)


def _well(soak: Soak) -> str:
    """How many of each kind."""
    counts = Counter(each.kind for each in soak.works if each.wanted)
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"


def _works(soak: Soak) -> Iterator[str]:
    """How many of each kind ended how, and then each by itself."""
    runs = Counter((each.kind, each.state) for each in soak.works)
    yield from ("| runs and commands | ended as | how many | slowest |", "| --- | --- | --- | --- |")
    for (kind, state), count in sorted(runs.items()):
        slowest = max(each.seconds for each in soak.works if (each.kind, each.state) == (kind, state))
        yield f"| {kind} | {state} | {count} | {slowest:.0f} s |"
    yield from ("", "| second | run or command | ended as | took | what it said |", "| --- | --- | --- | --- | --- |")
    for each in sorted(soak.works, key=lambda each: each.at):
        mark = "" if each.wanted else "**wrong**: "
        yield f"| {each.at:.0f} | {each.kind} | {mark}{each.state} | {each.seconds:.0f} s | {_line(each.note)} |"
    yield ""


def _line(note: str) -> str:
    """As one cell of a table."""
    told = "; ".join(line.strip() for line in note.splitlines() if line.strip()).replace("|", "\\|")
    return told if len(told) <= _SHOWN else told[:_SHOWN] + " ..."


def _freshness(soak: Soak) -> str:
    known = [sample.behind / soak.rate for sample in soak.samples if sample.behind is not None]
    if not known:
        return ""
    median, most = statistics.median(known), max(known)
    return f"Meanwhile they were {median:.1f} s behind the log's end at the median, {most:.0f} s at most."


def _most(samples: Sequence[Sample], name: str) -> Any:
    return max((getattr(sample, name) for sample in samples), default=0)


def _last(samples: Sequence[Sample], name: str) -> int:
    return getattr(samples[-1], name) if samples else 0
