"""``anabranch census``: which contract versions are in use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._context import project
from anabranch.apps.cli._tables import print_whole

if TYPE_CHECKING:
    from rich.table import Table

    from anabranch.ingest.landing.table.contract_usage import VersionUsage


def register(app: typer.Typer) -> None:
    app.command("census")(census_command)


def census_command(
    topic: Annotated[str | None, typer.Argument(help="A topic; default: all declared topics.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the contract versions that have ever landed: number of events, first and last, and producers. Of topics with
    a schema registry also the schemas that are known."""
    from anabranch.ingest.landing.table.contract_usage import census
    from anabranch.ingest.schema_registry import kept_schemas

    settings, declared = project()
    chosen = list(declared.topics.values()) if topic is None else [declared.topic(topic)]
    found = [seen for each in chosen for seen in census(settings, each)]
    if as_json:
        typer.echo(json.dumps([seen.to_json() for seen in found]))
        return
    print_whole(census_table(found))
    for each in chosen:
        for number, schema in kept_schemas(settings, each.name).items():
            typer.echo(f"{each.name}: schema id {number} ({schema.format}), taken in {schema.taken_in:%Y-%m-%d %H:%M}")


def census_table(found: Sequence[VersionUsage]) -> Table:
    """One line per version. Text from producers is escaped, so that it isn't interpreted as markup."""
    from rich.table import Table

    from anabranch.core.text.terminal_text import cell

    table, from_files = Table("topic", "event type", "version"), any(seen.loaded for seen in found)
    for heading in ("events", "late", *(["loaded"] if from_files else [])):
        table.add_column(heading, justify="right")
    for heading in ("first", "last", "producers"):
        table.add_column(heading, overflow="fold")
    for seen in found:
        mark = "newest" if seen.newest else "" if seen.declared else "not declared"
        version = f"v{seen.version} {mark}".strip()
        if not seen.events:
            table.add_row(seen.topic, cell(seen.type), version, "0", "", *([""] if from_files else []), "never seen")
            continue
        named = ", ".join(f"{p.source} {p.events:,}" for p in seen.producers)
        more = seen.sources - len(seen.producers)
        producers = cell(named) + (f" and {more} more" if more else "")
        times = (f"{at:%Y-%m-%d %H:%M}" if at else "" for at in (seen.first, seen.last))
        counts = [f"{seen.events:,}", f"{seen.late:,}", *([f"{seen.loaded:,}"] if from_files else [])]
        table.add_row(seen.topic, cell(seen.type), version, *counts, *times, producers)
    return table
