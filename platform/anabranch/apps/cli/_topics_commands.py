"""``anabranch topics``: adds, lists and creates topics, shows where the broker differs, tries samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from anabranch.apps.cli._add_topic_command import add_topic
from anabranch.apps.cli._context import project
from anabranch.apps.cli._tables import print_whole
from anabranch.apps.cli._try_records_command import try_records

topics = typer.Typer(no_args_is_help=True, help="Topics: add, list, create, compare with the broker, try samples.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    topics.command("add")(add_topic)
    topics.command("try")(try_records)
    app.add_typer(topics, name="topics")


@topics.command("list")
def list_topics(as_json: AsJson = False) -> None:
    """List the declared topics, with their event types and the number of records in the broker."""
    from anabranch.ingest.kafka.admin import begin_offsets, end_offsets, existing_topics

    settings, declarations = project()
    existing = existing_topics(settings)
    rows = []
    for topic in declarations.topics.values():
        exists = topic.in_kafka in existing
        begin = begin_offsets(settings, topic.in_kafka) if exists else {}
        end = end_offsets(settings, topic.in_kafka) if exists else {}
        rows.append(
            {
                "topic": topic.name,
                "kafka_topic": topic.in_kafka,
                "exists": exists,
                "partitions": topic.partitions,
                "retention_days": topic.retention.total_seconds() / 86_400,
                "allowed_lateness_seconds": topic.allowed_lateness.total_seconds(),
                "event_types": list(topic.event_types),
                "records": sum(end[p] - begin[p] for p in end),
                "begin_offsets": begin,
                "end_offsets": end,
            }
        )
    if as_json:
        typer.echo(json.dumps(rows))
        return
    from rich.table import Table

    table = Table("topic", "partitions", "retention", "lateness", "event types", "records")
    for topic, row in zip(declarations.topics.values(), rows, strict=True):
        records = f"{row['records']:,}" if row["exists"] else "not created"
        lateness = str(topic.allowed_lateness)
        retention = f"{topic.retention.days} days"
        table.add_row(
            topic.full_name, str(topic.partitions), retention, lateness, "\n".join(topic.event_types), records
        )
    print_whole(table)


@topics.command()
def create() -> None:
    """Create the declared topics that the broker lacks. Existing topics are not changed."""
    from anabranch.ingest.kafka.admin import create_missing

    settings, declarations = project()
    created = create_missing(settings, declarations.topics.values())
    typer.echo(f"created: {', '.join(created)}" if created else "every declared topic exists")


@topics.command()
def drift(as_json: AsJson = False) -> None:
    """Show where the broker's topics differ from the declarations. Exit code 1 if they do."""
    from anabranch.ingest.kafka.admin import drift as find_drift

    settings, declarations = project()
    found = find_drift(settings, declarations.topics.values())
    if as_json:
        typer.echo(json.dumps([asdict(difference) for difference in found]))
    elif not found:
        typer.echo("the broker's topics are as declared")
    else:
        from rich.table import Table

        from anabranch.core.text.terminal_text import cell

        table = Table("topic", "setting", "declared", "found")
        for difference in found:
            table.add_row(*map(cell, (difference.topic, difference.setting, difference.declared, difference.found)))
        print_whole(table)
    if found:
        raise typer.Exit(1)
