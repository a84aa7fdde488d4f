"""``anabranch events``: what is in the log, record by record, and what landing decided about one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.apps.cli._tables import print_whole

if TYPE_CHECKING:
    from anabranch.core.settings import Settings
    from anabranch.ingest.kafka.look import LogRecord

events = typer.Typer(no_args_is_help=True, help="Records of the log: the newest ones, or one by its offset.")
Topic = Annotated[str, typer.Argument(help="The topic, by its declared name or its name in Kafka, declared or not.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one record per line.")]
_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")
_LONG = 400


def register(app: typer.Typer) -> None:
    app.add_typer(events, name="events")


@events.command()
def tail(
    topic: Topic,
    count: Annotated[int, typer.Option("-n", min=0, max=10_000, help="Number of records.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new records, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the newest records of a topic, oldest first."""
    from anabranch.core.settings import load_settings
    from anabranch.ingest.kafka import look

    settings = load_settings()
    _, in_kafka = _names(settings, topic)
    found = look.newest(settings, in_kafka, count) if count else []
    for record in found:
        _print(record, as_json)
    if follow:
        for record in look.follow(settings, in_kafka):
            _print(record, as_json)
    elif not found and not as_json:
        typer.echo(f"{topic} holds no records")


@events.command()
def show(
    topic: Topic,
    place: Annotated[
        str, typer.Argument(metavar="PARTITION:OFFSET", help="PARTITION:OFFSET, as `tail` shows it, like 0:17.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one record, and what landing decided about it."""
    import json

    from anabranch.core.errors import BadInput
    from anabranch.core.settings import load_settings
    from anabranch.ingest.kafka import look

    if (found := _PLACE.fullmatch(place)) is None:
        raise BadInput("PARAMETER", f"{place!r} is no place in a topic", next_step="write PARTITION:OFFSET, like 0:17")
    settings, partition, offset = load_settings(), int(found[1]), int(found[2])
    name, in_kafka = _names(settings, topic)
    record = look.at(settings, in_kafka, partition, offset)
    landed = _landed(settings, name, partition, offset)
    if record is None and landed is None:
        raise BadInput(
            "NO_RECORD",
            f"{topic} holds no record at {place}, and none has landed",
            next_step=f"anabranch events tail {topic}",
        )
    if as_json:
        said = json.dumps(landed, default=str)
        typer.echo(f'{{"record": {record.to_json() if record else "null"}, "landed": {said}}}')
        return
    if record is None:
        typer.echo(f"{topic} {place}: the log doesn't hold it any more")
    else:
        _print(record, as_json=False, whole=True)
    if landed is None:
        typer.echo("not landed yet")
        return
    from rich.table import Table

    from anabranch.core.text.terminal_text import cell

    table = Table("landed", "")
    for name, value in landed.items():
        if value is not None:
            table.add_row(name, cell(str(value)))
    print_whole(table)


def _names(settings: Settings, given: str) -> tuple[str, str]:
    """The name of a topic here, and in Kafka. Both are what was given for a topic that isn't declared."""
    from anabranch.contracts.model.declarations import find_topic

    topic = find_topic(settings.contracts_folder, given)
    return (given, given) if topic is None else (topic.name, topic.in_kafka)


def _landed(settings: Settings, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """The decision about a record, and its envelope, from landing. A released record has two rows: the last counts."""
    from anabranch.core.settings import SAFE_NAME
    from anabranch.lake import open_table
    from anabranch.lake.layout import landing_table

    if not SAFE_NAME.fullmatch(topic) or (table := open_table(landing_table(settings, topic))) is None:
        return None
    columns = ["epoch", "decision", "reason", "late", "released_from", "type", "event_id", "source", "subject"]
    columns += ["contract_version", "event_time", "append_time"]
    rows = table.to_pyarrow_table(
        filters=[("partition", "=", partition), ("offset", "=", offset)], columns=columns
    ).to_pylist()
    return max(rows, key=lambda row: row["epoch"], default=None)


def _print(record: LogRecord, as_json: bool, *, whole: bool = False) -> None:
    from anabranch.core.text.terminal_text import printable
    from anabranch.ingest.kafka.look import shown

    if as_json:
        typer.echo(record.to_json())
        return
    at = f"{record.append_time:%Y-%m-%d %H:%M:%S.%f}"[:-3] if record.append_time else "no time"
    key = "" if record.key is None else f"  key {shown(record.key)}"
    typer.echo(printable(f"{record.partition}:{record.offset}  {at}{key}"))
    for name, value in record.headers:
        typer.echo(printable(f"  {name}: {shown(value)}"))
    text = "deleted (no value)" if record.value is None else str(shown(record.value))
    typer.echo(printable("  " + (text if whole or len(text) <= _LONG else f"{text[:_LONG]} ...")))
