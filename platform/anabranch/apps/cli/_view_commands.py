"""``anabranch views``: lists and checks the declared views, and shows dirty days."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.apps.cli._tables import print_whole
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.core.settings import Settings
    from anabranch.views import View

views = typer.Typer(no_args_is_help=True, help="Views: list them, check them, list their dirty days.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.add_typer(views, name="views")


@views.command("list")
def list_views(as_json: AsJson = False) -> None:
    """List the declared versions of all views, and whether each definition is registered, new or changed."""
    from anabranch.apps.cli._context import project_views

    settings, registry = project_views()
    rows = [_described(settings, view) for view in registry]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    from rich.table import Table

    table = Table("view", "events", "key", "partition by", "definition")
    for row in rows:
        partition = row["partition_by"] or "none (kappa)"
        keys, events = "\n".join(row["key"]), "\n".join(row["events"])
        table.add_row(f"{row['view']} v{row['version']}", events, keys, partition, row["definition"])
    print_whole(table)
    for line in _without_dag(settings, registry):
        typer.echo(printable(line), err=True)


def _without_dag(settings: Settings, views: Iterable[View]) -> Iterator[str]:
    """Says which of these Airflow doesn't see as they are: it reads their declarations without running the files."""
    from anabranch.apps.airflow.static_views import read_views

    found, unread = read_views(settings.views_folder)
    for view in views:
        read = next((each for each in found.get(view.name, ()) if each.version == view.version), None)
        if read is not None and read.kappa == view.kappa:
            continue
        file = Path(view.origin.file).name
        here = (why for place, why in unread.items() if Path(place).name in (file, f"{file}:{view.origin.line}"))
        why = next(here, "it must be decorated by @view(...) at the top level of its file")
        if read is not None:
            why = "its partition_by must be written in its file, as a literal or a constant"
        yield f"{view.name} v{view.version} ({view.origin}) has no DAG of its kind in Airflow: {why}"


def _described(settings: Settings, view: View) -> dict[str, Any]:
    return {
        "view": view.name,
        "version": view.version,
        "events": list(view.events),
        "key": list(view.key),
        "partition_by": view.partition_by,
        "lookback_seconds": view.lookback.total_seconds(),
        "lookahead_seconds": view.lookahead.total_seconds(),
        "definition": _definition_state(settings, view),
        "fingerprint": view.fingerprint,
        "declared_in": str(view.origin),
    }


def _definition_state(settings: Settings, view: View) -> str:
    from anabranch.core.errors import Conflict
    from anabranch.views.definition_registry import is_registered

    try:
        return "registered" if is_registered(settings, view) else "new"
    except Conflict:
        return "changed"


@views.command()
def dirty(
    name: Annotated[str, typer.Argument(help="The view.")],
    version: Annotated[int | None, typer.Option(help="Its version; default: the newest one.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the published days for which more events have landed since, which the repair DAG rebuilds; and the
    never-published days with late or loaded events, which are in no half.

    In JSON, never-published days have `at` null and `events` null (the speed half has the on-time events).
    """
    from anabranch.apps.cli._context import project_views
    from anabranch.change.dirty_partitions import dirty_partitions
    from anabranch.compute.batch.missing_days import late_events, missing_now

    settings, registry = project_views()
    view = registry.handle(settings, registry.get(name, version))
    found, lacking = dirty_partitions(view), missing_now(view)
    never = lacking.never_published
    if as_json:
        days = [{"partition": f"{d.partition}", "at": f"{d.at}", "events": d.events, "late": d.late} for d in found]
        unpublished = [{"partition": f"{d}", "at": None, "events": None, "late": late} for d, late in never.items()]
        typer.echo(json.dumps([*days, *unpublished]))
        return
    for day in found:
        late = f"{day.late:,} late" + (f", {day.loaded:,} loaded" if day.loaded else "")
        typer.echo(f"{day.partition}  published at {day.at}, {day.events:,} events since ({late})")
    if not found:
        typer.echo(f"all published days of {view.name} v{view.version} include everything that has landed for them")
    for each in lacking.days:
        if each.day in never:
            typer.echo(f"{each.day}  never published, {late_events(each.late, each.loaded)} in no half")
    if never:
        typer.echo(
            f"{lacking}; anabranch reprocess {view.name} --version {view.version} --missing publishes these days"
        )


@views.command()
def check(
    name: Annotated[str | None, typer.Argument(help="Only this view; default: every one.")] = None,
) -> None:
    """Check that definitions can be equal in both paths, and haven't changed since their version was registered; say
    which have no DAG. Writes nothing.

    Exit code 1 if a view is refused; the others are still checked.
    """
    from anabranch.apps.cli._context import project_views
    from anabranch.core.engine.java_options import short_engine
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.errors import AnabranchError
    from anabranch.views.check import check as check_view
    from anabranch.views.definition_registry import is_registered

    settings, registry = project_views()
    chosen = [view for view in registry if name in (None, view.name)] or [registry.get(name or "")]
    refused = 0
    with engine(settings, "anabranch-views-check", short_engine(settings)) as spark:
        for view in chosen:
            try:
                check_view(view, spark, registry.declarations)
                known = is_registered(settings, view)
                typer.echo(f"{view.name} v{view.version}: fine, {'registered' if known else 'new'}")
            except AnabranchError as error:
                refused += 1
                typer.echo(printable(str(error)), err=True)
    for line in _without_dag(settings, chosen):
        typer.echo(printable(line), err=True)
    if refused:
        raise typer.Exit(1)
