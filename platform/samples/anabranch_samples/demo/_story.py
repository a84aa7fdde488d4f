"""Prints the demo's output. Every number comes from the run: delivery reports, tables, run notes and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

from anabranch.certify.certificates import newest_certificates
from anabranch.ingest.landing.audit.report import proof_table
from anabranch.lake import commit_history, latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.serve import Reading, read
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from anabranch.apps.airflow.client import Run
    from anabranch.certify.late_changes import LateChanges
    from anabranch.certify.verdict import Verdict
    from anabranch.core.settings import Settings
    from anabranch.ingest.landing.audit.verify import Proof

    from anabranch_samples.oracle import Agreement
    from anabranch_samples.publishing import Summary


class Story:
    """Prints the demo's output. ``step`` shows progress while a step runs; the other methods print results."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._late_landed: dict[str, int] = {}
        console = Console(highlight=False)
        self._console = Console(highlight=False, soft_wrap=True, width=max(console.width, 110))

    def opening(self, days: int) -> None:
        self.say(
            f"[bold]Anabranch[/]: {days} days of New York's flights, from a Kafka log into certified Delta views\n"
        )

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[str], None]]:
        """Shows that ``what`` is in progress, with a line of detail that the caller updates."""
        from time import monotonic

        begun = monotonic()
        with self._console.status(what) as status:
            yield lambda detail: status.update(f"{what}  [dim]{escape(detail)}[/]")
        self.say(f"[green]✓[/] {what} [dim]{monotonic() - begun:.1f} s[/]")

    def produced(self, summary: Summary) -> None:
        table = Table(title=f"\n1. Into the log: {summary.total:,} records in {summary.seconds:.1f} s", **_LEFT)
        partitions = sorted({partition for _, _, partition in summary.records})
        for name in ("topic", "event type", *(f"p{p}" for p in partitions), "all"):
            table.add_column(name, justify="left" if name in ("topic", "event type") else "right")
        for topic, kind in sorted({key[:2] for key in summary.records}):
            counts = [summary.records.get((topic, kind, p), 0) for p in partitions]
            table.add_row(topic, kind, *(f"{n:,}" if n else "" for n in counts), f"{sum(counts):,}")
        self._console.print(table)
        if summary.faults:
            told = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(summary.faults.items()))
            self.say(f"   including injected faults: {told}\n")

    def landed(self, proofs: Sequence[Proof]) -> None:
        self.say("\n[bold]2. Landed[/]: every record once, every decision stored")
        for proof in proofs:
            self.proof(proof)
        self._late_landed = {proof.topic: sum(p.late for p in proof.partitions) for proof in proofs}

    def proof(self, proof: Proof) -> None:
        """Prints what was landed of one topic."""
        self._console.print(proof_table(proof))

    def speed(self, views: Sequence[str]) -> None:
        title = "\n3. Speed layer: the same functions as streams (one that drops an on-time row stops with an error)"
        table = Table(title=title, **_LEFT)
        for name in ("view", "cut", "rows", "micro-batches", "committed"):
            table.add_column(name)
        for view in views:
            speed = VersionRef(self._settings, view, 1).speed_table
            committed = latest_commit(speed)
            reading = read(view, settings=self._settings)
            rows = reading.to_arrow().num_rows
            cut, age = (str(committed.note.cut), reading.freshness.age_seconds) if committed else ("nothing", 0.0)
            batches = sum(1 for c in commit_history(speed) if c.note.batch != "create")
            table.add_row(view, cut, f"{rows:,}", str(batches), f"{age:.1f} s ago")
        self._console.print(table)

    def reprocessed(self, run: Run, verdict: Verdict) -> None:
        view = run.dag_id.removeprefix("reprocess_")
        found = newest_certificates(VersionRef(self._settings, view, 1))
        equal = [day for day, certificate in found.items() if certificate.equal]
        self.say(f"\n[bold]4. Airflow[/]: {run.dag_id} {run.state}")
        self.say(f"   {run.url}")
        self.quote(run.note.splitlines())
        self.say(f"   certificates: [bold]{len(equal)} of {len(found)} equal[/] (speed = batch function, row by row)")
        self._late(verdict.late_changes)

    def _late(self, changes: Sequence[LateChanges]) -> None:
        touched = [change for change in changes if change.late_events]
        if not touched:
            return
        table = Table(title="   changes by late events, per partition", **_LEFT)
        for name in ("day", "late events", "rows added", "rows changed"):
            table.add_column(name, justify="left" if name == "day" else "right")
        for change in touched:
            table.add_row(str(change.partition), str(change.late_events), str(change.added), str(change.changed))
        self._console.print(table)

    def served(self, view: str) -> None:
        reading = read(view, settings=self._settings)
        rows = reading.to_polars().sort("window_start", "origin")
        halves = list(reading.halves.values())
        self.say(
            f"\n[bold]5. Served[/]: {view} v{reading.version}, {rows.height:,} rows at {reading.cut}; "
            f"{halves.count('batch')} days from batch, {halves.count('speed')} from speed"
        )
        rows = rows.drop("window_end")
        table = Table(**_LEFT)
        for name in rows.columns:
            table.add_column(name, justify="left" if name == "origin" else "right")
        for row in rows.filter(rows["window_start"].dt.date() == date(2013, 1, 2)).head(10).iter_rows():
            table.add_row(*(str(value).removesuffix("+00:00") for value in row))
        self._console.print(table)
        self._picture(view)

    def _picture(self, view: str) -> None:
        """Writes a PNG: delay by hour of the day, from both halves, on the days that batch serves."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        complete = read(view, settings=self._settings, prefer="complete")
        days = [day for day, half in complete.halves.items() if half == "batch" and day is not None]
        halves = {"batch (with late events)": complete, "speed": read(view, settings=self._settings, prefer="speed")}
        figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
        for (label, reading), style in zip(halves.items(), ("o-", "x--"), strict=True):
            axes.plot(*_hourly(reading, days), style, label=label)
        axes.set(xlabel="hour of scheduled departure (UTC)", ylabel="minutes of delay per flight", title=view)
        axes.legend()
        target = self._settings.home / f"{view}.png"
        figure.savefig(target, dpi=120)
        pyplot.close(figure)
        self.say(f"   delays by hour, from both paths: {target.as_uri()}")

    def oracle(self, topic: str, answers: Sequence[tuple[str, Agreement, dict[date, int]]]) -> bool:
        """Prints and returns whether the oracle agrees with every served row, and with landing's number of late
        events."""
        self.say("\n[bold]6. An independent oracle[/]: DuckDB over the producer's file, without Spark")
        for view, agreement, _ in answers:
            if agreement.agreed:
                self.say(f"   [green]✓[/] {view}: all {agreement.rows:,} served rows agree")
            else:
                self.say(f"   [red]✗[/] {view}: only served {agreement.only_served[:3]}")
                self.say(f"     only expected {agreement.only_expected[:3]}")
        late, landed = answers[0][2], self._late_landed[topic]
        mark = "[green]✓[/]" if sum(late.values()) == landed else "[red]✗[/]"
        self.say(f"   {mark} it finds {sum(late.values()):,} late events on {len(late)} days; landing found {landed:,}")
        return all(agreement.agreed for _, agreement, _ in answers) and sum(late.values()) == landed

    def closing(self, seconds: float) -> None:
        self.say(f"\n[bold]Done[/] in {seconds:.0f} s; everything that was started is stopped. The tables stay:")
        self.say(f"   ANABRANCH_HOME={self._settings.home} .venv/bin/anabranch read departure_delays --limit 5")
        self.say(f"   Data Docs: {(self._settings.home / 'data_docs' / 'index.html').as_uri()}")
        self.say(
            "[bold]Next[/]: make up, then open Airflow; docs/tutorial-first-view.md is your first view in 15 lines"
        )

    def say(self, text: str = "") -> None:
        self._console.print(text)

    def quote(self, lines: Sequence[str]) -> None:
        """Prints lines of another component verbatim."""
        for line in lines:
            self.say(f"   [dim]{escape(line)}[/]")


def _hourly(reading: Reading, days: Sequence[date]) -> tuple[list[int], list[float]]:
    """Returns the hours of the day, and the minutes of delay per flight in each."""
    import polars as pl

    rows = reading.to_polars().filter(pl.col("window_start").dt.date().is_in(list(days)))
    delay = (pl.col("delay_minutes").sum() / pl.col("flights").sum()).alias("delay")
    hourly = rows.group_by(pl.col("window_start").dt.hour().alias("hour")).agg(delay).sort("hour")
    return hourly["hour"].to_list(), hourly["delay"].to_list()


_LEFT: dict[str, Any] = {"title_justify": "left", "title_style": "bold"}
