"""``anabranch produce``: sends events or records of a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch._lazy_exports import lazy_exports
from anabranch.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

if not TYPE_CHECKING:  # what was here before the samples were a distribution of their own
    __getattr__, _ = lazy_exports(__name__)

produce = typer.Typer(no_args_is_help=True, help="Send events to the log.")


def register(app: typer.Typer) -> None:
    app.add_typer(produce, name="produce")


@produce.callback()
def _group() -> None:
    """Send events to the log."""


@produce.command()
def events(
    file: Annotated[Path, typer.Argument(help="CloudEvents, one JSON object per line: id, source, type, time, data.")],
) -> None:
    """Send your own events from a file: all are checked against their contracts, then sent once, in order."""
    from anabranch.apps.cli._context import project
    from anabranch.ingest.kafka import Producer
    from anabranch.ingest.kafka.admin import ensure_topics
    from anabranch.ingest.kafka.event_files import read_events

    settings, declarations = project()
    found = read_events(file, declarations)
    ensure_topics(settings, declarations, {event.topic for event in found})
    with Producer(settings, declarations) as producer:
        receipts = [producer.send_checked(event.topic, event.key, event.value) for event in found]
    sent = (receipt.result() for receipt in receipts)
    ends = {(r.topic, r.partition): r.offset for r in sent if r.offset is not None}
    typer.echo(f"{len(found):,} events of {file} are in the log: " + _ends(ends))


@produce.command()
def records(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="One JSON record per line; - reads the standard input.")],
    rate: Annotated[float | None, typer.Option(help="Maximum number of records per second.", metavar="N")] = None,
) -> None:
    """Send the lines of a file as they are: events with their envelope, or the plain JSON of a mapped topic."""
    import sys

    from anabranch.apps.cli._context import project
    from anabranch.ingest.kafka.admin import ensure_topics
    from anabranch.ingest.kafka.lines import send_lines

    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise bad_parameter("--rate", rate, "a number above 0")
    settings, declarations = project()
    ensure_topics(settings, declarations, [declarations.topic(topic).name])
    try:
        lines = sys.stdin.buffer if file == "-" else Path(file).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise BadInput("EVENT_FILE", f"{file} can't be read: {error}", next_step="name a file, or -") from None
    with lines:
        sent = send_lines(settings, declarations, topic, lines, rate=rate)
    ends = {(topic, partition): offset for partition, offset in sent.ends.items()}
    typer.echo(f"{sent.count:,} records of {file} are in the log: {_ends(ends)}")


def _ends(ends: Mapping[tuple[str, int], int]) -> str:
    return ", ".join(f"{topic}[{partition}] up to offset {end}" for (topic, partition), end in sorted(ends.items()))


def bad_parameter(name: str, value: object, wanted: str) -> BadInput:
    return BadInput(
        "PARAMETER",
        f"{name} is {value!r}; it must be {wanted}",
        state="nothing was sent",
        next_step=f"give {name} {wanted}" if not wanted.startswith("left") else f"leave {name} out",
        parameter=name,
    )
