"""``anabranch produce flights``: sends the sample flights, with faults, and keeps a file of all that was sent."""

from __future__ import annotations

import json
import math
import re
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from anabranch.apps.cli import print_whole
from anabranch.apps.cli.produce_commands import bad_parameter, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anabranch.core.settings import Settings

    from anabranch_samples.faults import Faults
    from anabranch_samples.publishing import Pace, Summary

_DAYS = 3660
_FAULTS = "Faults (shares of the events, 0 to 1)"


def register(app: typer.Typer) -> None:
    """Adds ``flights`` to the group ``produce``, which ``app`` has."""
    produce.command("flights")(flights)


def _share(told: str) -> Any:
    return typer.Option(rich_help_panel=_FAULTS, metavar="SHARE", help=told)


def flights(
    first: Annotated[str, typer.Option("--from", help="First day of departure, YYYY-MM-DD.")] = "2013-01-01",
    days: Annotated[int, typer.Option(help="How many days.")] = 31,
    rate: Annotated[float | None, typer.Option(help="Events per second.", metavar="N")] = None,
    speed: Annotated[str | None, typer.Option(help="How much faster than real time, like 3600x.")] = None,
    log: Annotated[
        Path | None, typer.Option(help="Write everything that was sent to this Parquet file.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    seed: Annotated[int, typer.Option(rich_help_panel=_FAULTS, help="The same seed gives the same faults.")] = 2013,
    faults: Annotated[bool, typer.Option("--faults", rich_help_panel=_FAULTS, help="A few of each fault.")] = False,
    duplicates: Annotated[float | None, _share("The same bytes again.")] = None,
    conflicts: Annotated[float | None, _share("The same id with another payload.")] = None,
    malformed: Annotated[float | None, _share("Bytes that are not an event.")] = None,
    broken_contracts: Annotated[float | None, _share("Events that violate their contract.")] = None,
    absurd_times: Annotated[float | None, _share("Event times of 1900, of 2100, or missing.")] = None,
    wrong_clocks: Annotated[float | None, _share("Devices with a wrong clock.")] = None,
    days_late: Annotated[float | None, _share("Published 1 to 5 days later.")] = None,
) -> None:
    """Send the real flights of 2013 from New York, in the order in which they happened."""
    begin, pace = parse_day(first), parse_pace(rate, speed)
    span = parse_days(begin, days)
    shares = {
        "duplicates": duplicates,
        "conflicts": conflicts,
        "malformed": malformed,
        "broken_contracts": broken_contracts,
        "absurd_times": absurd_times,
        "wrong_clocks": wrong_clocks,
        "days_late": days_late,
    }
    chosen = choose_faults(faults, shares)
    if seed < 0:
        raise bad_parameter("--seed", seed, "a number from 0")
    from anabranch.core.project_folder import check_project
    from anabranch.core.settings import load_settings

    settings = load_settings()
    check_project(settings.project)
    summary = produce_flights(settings, begin, span, pace, chosen, seed, file=log, quiet=as_json)
    typer.echo(json.dumps(summary.as_dict())) if as_json else _print(summary)


def produce_flights(
    settings: Settings,
    first: date,
    days: int,
    pace: Pace,
    faults: Faults,
    seed: int,
    *,
    file: Path | None = None,
    quiet: bool = False,
) -> Summary:
    """Creates missing topics, sends the events and keeps the file. Also called by the demo. Raises TOPIC_DRIFT,
    NO_FLIGHTS, BROKER_UNREACHABLE and what ``publish`` raises."""
    from anabranch.contracts import load_declarations
    from anabranch.ingest.kafka import Producer
    from anabranch.ingest.kafka.admin import ensure_topics

    from anabranch_samples.faults import inject
    from anabranch_samples.flights import EVENT_TYPES, flight_events
    from anabranch_samples.publishing import publish

    declarations = load_declarations(settings.contracts_folder)
    ensure_topics(settings, declarations, {declarations.topic_of(kind).name for kind in EVENT_TYPES})
    events = inject(flight_events(first, days, declarations), faults, seed)
    target = file or settings.home / "produced" / f"flights-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.parquet"
    with Producer(settings, declarations) as producer, _progress(events.height, quiet) as advance:
        return publish(producer, events, target, pace, advance)


def parse_day(text: str) -> date:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    raise bad_parameter("--from", text, "a day like 2013-01-01")


def parse_days(first: date, days: int) -> int:
    if not 1 <= days <= min(_DAYS, (date.max - first).days):
        raise bad_parameter("--days", days, f"a number from 1 to {_DAYS}")
    return days


def parse_pace(rate: float | None, speed: str | None) -> Pace:
    """Parses ``--rate`` or ``--speed``: at most one of them, finite and above zero."""
    from anabranch_samples.publishing import Pace

    if rate is not None and speed is not None:
        raise bad_parameter("--rate", rate, "left out when --speed is given")
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise bad_parameter("--rate", rate, "a number above 0")
    factor = None
    if speed is not None:
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?x?", speed, re.ASCII) or float(speed.rstrip("x")) == 0:
            raise bad_parameter("--speed", speed, "a factor above 0 like 3600x")
        factor = float(speed.rstrip("x"))
    return Pace(rate, factor)


def choose_faults(everything: bool, shares: dict[str, float | None]) -> Faults:
    """Returns the small shares of ``--faults`` or none, overridden by each share that was given."""
    from anabranch_samples.faults import SMALL, Faults

    base = SMALL if everything else Faults()
    given = {name: share for name, share in shares.items() if share is not None}
    return Faults(**{**asdict(base), **given})


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Callable[[int], Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as progress:
        task = progress.add_task("events sent", total=total)
        yield lambda count: progress.advance(task, count)


def _print(summary: Summary) -> None:
    from rich.console import Console
    from rich.table import Table

    partitions = sorted({partition for _, _, partition in summary.records})
    table = Table(title=f"{summary.total:,} records in the log after {summary.seconds:.1f} s")
    table.add_column("topic")
    table.add_column("event type", no_wrap=True)
    for partition in partitions:
        table.add_column(f"p{partition}", justify="right")
    table.add_column("all", justify="right")
    for topic, kind in sorted({(topic, kind) for topic, kind, _ in summary.records}):
        counts = [summary.records[topic, kind, partition] for partition in partitions]
        table.add_row(topic, kind, *[f"{count:,}" if count else "" for count in counts], f"{sum(counts):,}")
    print_whole(table)
    console = Console()
    if summary.faults:
        console.print("faults: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(summary.faults.items())))
    console.print(f"file of everything that was sent: {summary.file}", soft_wrap=True)
