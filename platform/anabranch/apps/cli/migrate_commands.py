"""``anabranch migrate``: readers to the next version of a view, in steps, with checks between them and a way back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from anabranch.core.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.change.migration import Migration
    from anabranch.core.settings import Settings
    from anabranch.views import Registry, View

migrate = typer.Typer(no_args_is_help=True, help="Migrations: readers from one version of a view to the next.")
ViewName = Annotated[str, typer.Argument(help="The view's name.")]
VersionNumber = Annotated[int, typer.Argument(min=1, help="The version.")]
Why = Annotated[str, typer.Option(help="Why, for the history.")]
By = Annotated[str | None, typer.Option(help="Who does it; user@host when left out.")]
_LOOK = 2.0
"""Seconds between two looks while a step soaks."""


def register(app: typer.Typer) -> None:
    app.add_typer(migrate, name="migrate")


@migrate.command()
def start(
    view: ViewName,
    old: Annotated[int, typer.Argument(help="The version that all readers have.")],
    new: Annotated[int, typer.Argument(help="The version that they should come to.")],
    why: Why,
    steps: Annotated[str, typer.Option(help="The shares in percent, one after the other.")] = "1,5,25,50,100",
    soak: Annotated[str, typer.Option(help="How long each step is watched, '10 minutes'.")] = "10 minutes",
    changed: Annotated[list[str] | None, typer.Option(help="A column that is meant to differ; repeatable.")] = None,
    check: Annotated[list[str] | None, typer.Option(help="An SQL predicate that each row keeps; repeatable.")] = None,
    behind: Annotated[int, typer.Option(min=0, help="Epochs that a version may be behind landing.")] = 30,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve it without being asked.")] = False,
) -> None:
    """Compare both versions, ask for your approval, and write it down. Moves nobody yet: `migrate run` does."""
    from anabranch.apps.cli.context import project_views
    from anabranch.certify.compare_versions import compare_versions
    from anabranch.certify.rendering import version_lines
    from anabranch.change.migration import start as begin
    from anabranch.change.migration_request import seconds_of, steps_of
    from anabranch.change.promotion_checks import Expectations
    from anabranch.serve.routes import this_reader

    settings, registry = project_views()
    versions = registry.get(view, old), registry.get(view, new)
    for line in version_lines(compare_versions(settings, *versions, changed or ())):
        typer.echo(line)
    if not yes:
        typer.confirm(f"Lead the readers of {view} from v{old} to v{new}?", abort=True)
    made = begin(
        settings,
        *versions,
        by=by or this_reader(),
        why=why,
        steps=steps_of(steps),
        soak_seconds=seconds_of(soak, "soak"),
        promise=Expectations(tuple(changed or ()), tuple(check or ()), behind),
    )
    typer.echo(str(made))


@migrate.command()
def status(view: ViewName, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """How far the newest migration of a view has come, and why its readers are where they are."""
    from anabranch.change.migration import migration_of
    from anabranch.core.settings import load_settings

    found = migration_of(load_settings(), view)
    if as_json:
        typer.echo(json.dumps(found[1].to_json() if found else None))
    elif found is None:
        typer.echo(f"{view}: no migration")
    else:
        typer.echo(printable(f"{found[1]}\n  by {found[0].changed_by}: {found[0].why}"))


@migrate.command()
def advance(view: ViewName, by: By = None) -> None:
    """Check, and go one step further. Exit code 1 when a check failed: readers are back on the old version then."""
    from anabranch.apps.cli.context import project_views
    from anabranch.change.migration import advance as step
    from anabranch.serve.routes import this_reader

    settings, registry = project_views()
    made = step(settings, *_versions(settings, registry, view), by=by or this_reader())
    _told(settings, made)
    if made.state == "rolled back":
        raise typer.Exit(1)


@migrate.command("run")
def run_command(view: ViewName, by: By = None) -> None:
    """Go on step by step until it is done, looking every two seconds. May be broken off and started again.

    Exit code 1 when a check failed, or somebody rolled it back: readers are on the old version then.
    """
    from anabranch.apps.cli.context import project_views
    from anabranch.change.migration import advance as step
    from anabranch.core.errors import TryAgain
    from anabranch.serve.routes import this_reader

    settings, registry = project_views()
    versions, told = _versions(settings, registry, view), ""
    while True:
        try:
            made = step(settings, *versions, by=by or this_reader())
        except TryAgain as wait:
            # It soaks, or a stream is behind, or a check can't be made: then somebody must know.
            if wait.code not in ("SOAKING", told):
                typer.echo(str(wait), err=True)
            told = wait.code
            time.sleep(_LOOK)
            continue
        _told(settings, made)
        if made.state != "moving":
            break
    if made.state == "rolled back":
        raise typer.Exit(1)


@migrate.command()
def halt(view: ViewName, why: Why, by: By = None) -> None:
    """Hold it where it is: readers keep their versions, and every check goes on."""
    from anabranch.change.migration import halt as change

    _change(change, view, by, why)


@migrate.command()
def resume(view: ViewName, why: Why, by: By = None) -> None:
    """Go on after a halt; the newest step soaks anew."""
    from anabranch.change.migration import resume as change

    _change(change, view, by, why)


@migrate.command()
def hasten(view: ViewName, why: Why, by: By = None) -> None:
    """Let the next step be taken as soon as its checks are green, without waiting until the newest one has soaked."""
    from anabranch.change.migration import skip_soak as change

    _change(change, view, by, why)


@migrate.command()
def rollback(view: ViewName, why: Why, by: By = None) -> None:
    """Lead all readers back to the old version, now. Also of a migration that is done."""
    from anabranch.change.migration import rollback as change

    _change(change, view, by, why)


@migrate.command()
def retire(
    view: ViewName,
    version: VersionNumber,
    why: Why,
    grace: Annotated[str, typer.Option(help="How long nobody may have had or named it, '7 days'.")] = "7 days",
    by: By = None,
) -> None:
    """Nobody gets this version any more, and nothing keeps it up to date. Its tables stay; see `reinstate`, `drop`."""
    from datetime import timedelta

    from anabranch.change.migration_request import seconds_of
    from anabranch.core.settings import load_settings
    from anabranch.serve.retirement import retire as change
    from anabranch.serve.routes import this_reader

    patience = timedelta(seconds=seconds_of(grace, "grace"))
    change(load_settings(), view, version, by=by or this_reader(), why=why, grace=patience)
    typer.echo(f"{view} v{version} is retired; its tables stay until: anabranch migrate drop {view} {version}")


@migrate.command()
def reinstate(view: ViewName, version: VersionNumber, why: Why, by: By = None) -> None:
    """Take a retirement back: the version's stream goes on where it was."""
    from anabranch.core.settings import load_settings
    from anabranch.serve.retirement import reinstate as change
    from anabranch.serve.routes import this_reader

    change(load_settings(), view, version, by=by or this_reader(), why=why)
    typer.echo(f"{view} v{version} can be read again, once its stream has caught up")


@migrate.command()
def drop(
    view: ViewName,
    version: VersionNumber,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Delete the tables of a retired version. They can only be made again from history."""
    from anabranch.core.settings import load_settings
    from anabranch.serve.retirement import drop as change

    if not yes:
        typer.confirm(f"Delete the tables of {view} v{version}?", abort=True)
    typer.echo(f"{change(load_settings(), view, version) / 1e6:,.1f} MB are free again")


def _change(change: Callable[..., Migration], view: str, by: str | None, why: str) -> None:
    from anabranch.core.settings import load_settings
    from anabranch.serve.routes import this_reader

    settings = load_settings()
    _told(settings, change(settings, view, by=by or this_reader(), why=why))


def _versions(settings: Settings, registry: Registry, view: str) -> tuple[View, View]:
    """The old and the new version of the view's migration; Conflict NOT_MOVING where there is none."""
    from anabranch.change.migration import active_migration

    _, migration = active_migration(settings, registry.get(view).name)
    return registry.get(view, migration.old), registry.get(view, migration.new)


def _told(settings: Settings, made: Migration) -> None:
    from anabranch.serve.routes import route_of

    route = route_of(settings, made.view)
    typer.echo(printable(f"{made}{f': {route.why}' if route else ''}"))
