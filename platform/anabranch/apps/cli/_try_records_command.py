"""``anabranch topics try``: what landing would decide about samples, before anything is landed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._context import project
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from anabranch.contracts import Topic
    from anabranch.core.settings import Settings
    from anabranch.ingest.files import DryRun


def try_records(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="A declared topic.")],
    file: Annotated[
        str | None, typer.Argument(help="A file of samples (.jsonl, .csv, .parquet, .avro); or use --last.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=0, help="Instead of a file: this many of the newest records of the log.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Number of rows of the file to try.")] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how many records would be valid, late, duplicates or quarantined, and why. Lands nothing. Starts Spark.

    Exit code 1 if one would be quarantined.
    """
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.errors import BadInput

    settings, declared = project()
    topic = declared.topic(name)
    if (file is None) == (last == 0):
        raise BadInput(
            "SAMPLES_NEEDED",
            f"what is to be tried as records of {topic.name}: a file, or the newest ones of the log?",
            next_step=f"anabranch topics try {topic.name} FILE, or --last 1000",
        )
    what, tried = _of_file(settings, topic, file, limit) if file is not None else _of_log(settings, topic, last)
    with engine(settings, "anabranch-topics-try") as spark:
        found = tried(spark)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        _print(found, what, from_file=file is not None)
    if found.quarantined:
        raise typer.Exit(1)


def _of_file(settings: Settings, topic: Topic, file: str, limit: int) -> tuple[str, Callable[[SparkSession], DryRun]]:
    from anabranch.ingest.files import find_files, rows_of_file, try_rows

    (address, *others) = find_files([file])
    values = rows_of_file(address, topic, limit)
    more = f"; {len(others)} more files below it" if others else ""
    what = f"{sum(map(bool, values)):,} rows of {address.name}{more}, as if they came by the log now"
    return what, lambda spark: try_rows(spark, settings, topic, values, address.format)


def _of_log(settings: Settings, topic: Topic, last: int) -> tuple[str, Callable[[SparkSession], DryRun]]:
    from anabranch.ingest.files import try_records
    from anabranch.ingest.kafka.look import newest

    records = newest(settings, topic.in_kafka, last)
    return f"the newest {len(records):,} records of the log", lambda spark: try_records(spark, settings, topic, records)


def _print(found: DryRun, what: str, *, from_file: bool) -> None:
    from anabranch.ingest.files import lines_of

    typer.echo(printable(f"{found.topic}: {what}"))
    for line in lines_of(found):
        typer.echo(printable(line))
    if found.late and from_file:
        typer.echo(
            f"late events reach readers through batch; anabranch load {found.topic} takes history as loaded events"
        )
    typer.echo("nothing was landed, sent or stored")
