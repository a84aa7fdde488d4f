"""``anabranch migrate``: moves readers to another version of a view in steps, with checks and rollback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.change.migrate.migration_record import Migration
    from anabranch.core.errors import Conflict
    from anabranch.core.settings import Settings
    from anabranch.views import Registry, View

migrate = typer.Typer(no_args_is_help=True, help="Migrations: move readers from one version of a view to another.")
ViewName = Annotated[str, typer.Argument(help="The view's name.")]
VersionNumber = Annotated[int, typer.Argument(min=1, help="The version.")]
Why = Annotated[str, typer.Option(help="The reason, for the history.")]
By = Annotated[str | None, typer.Option(help="Who does it; default: user@host.")]
_POLL_SECONDS = 2.0
"""Seconds between two checks while a step soaks."""


def register(app: typer.Typer) -> None:
    app.add_typer(migrate, name="migrate")


@migrate.command()
def start(
    view: ViewName,
    old: Annotated[int, typer.Argument(help="The version that readers have now.")],
    new: Annotated[int, typer.Argument(help="The version that they move to.")],
    why: Why,
    steps: Annotated[str, typer.Option(help="The share of readers in each step, in percent.")] = "1,5,25,50,100",
    soak: Annotated[str, typer.Option(help="How long each step is watched, '10 minutes'.")] = "10 minutes",
    changed: Annotated[
        list[str] | None, typer.Option(help="A column meant to differ, or to be removed; repeatable.")
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(help="An SQL predicate that every row must satisfy; repeatable.")
    ] = None,
    behind: Annotated[int, typer.Option(min=0, help="Epochs that a version may be behind landing.")] = 30,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without being asked.")] = False,
) -> None:
    """Compare both versions, ask for your approval, and record it. Moves no reader yet: `migrate run` does."""
    from anabranch.apps.cli._context import project_views
    from anabranch.certify.compare_versions import compare_versions
    from anabranch.certify.rendering import version_lines
    from anabranch.change.migrate.migration import start as begin
    from anabranch.change.migrate.migration_request import seconds_of, steps_of
    from anabranch.change.migrate.promotion_checks import Expectations
    from anabranch.core.settings import user_at_host

    settings, registry = project_views()
    versions = registry.get(view, old), registry.get(view, new)
    found = compare_versions(settings, *versions, changed or ())
    for line in version_lines(found):
        typer.echo(line)
    if found.as_declared and not yes:  # else it is refused, whatever the answer
        typer.confirm(f"Move the readers of {view} from v{old} to v{new}?", abort=True)
    migration = begin(
        settings,
        *versions,
        by=by or user_at_host(),
        why=why,
        steps=steps_of(steps),
        soak_seconds=seconds_of(soak, "soak"),
        promise=Expectations(tuple(changed or ()), tuple(check or ()), behind),
    )
    typer.echo(str(migration))


@migrate.command()
def status(view: ViewName, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the progress of a view's newest migration, what changed its route since, and the reasons."""
    from anabranch.change.migrate.migration_record import newest_migration
    from anabranch.core.settings import load_settings
    from anabranch.serve.routes import route_of

    settings = load_settings()
    found, now = newest_migration(settings, view), route_of(settings, view)
    if as_json:
        typer.echo(json.dumps(found[1].to_json() if found else None))
        return
    if found is None:
        typer.echo(f"{view}: no migration")
    else:
        typer.echo(printable(f"{found[1]}\n  by {found[0].changed_by}: {found[0].why}"))
    if now is not None and (found is None or now.number > found[0].number):
        retired = "".join(f", v{version} retired" for version in sorted(now.retired))
        typer.echo(printable(f"  route {now.number} now: {now}{retired}, by {now.changed_by}: {now.why}"))


@migrate.command()
def advance(view: ViewName, by: By = None) -> None:
    """Run the checks and take one step. Exit code 1 if a check failed: readers are then back on the old version."""
    from anabranch.apps.cli._context import project_views
    from anabranch.change.migrate.migration import advance as step
    from anabranch.core.settings import user_at_host

    settings, registry = project_views()
    migration = step(settings, *_versions(settings, registry, view), by=by or user_at_host())
    _print_migration(settings, migration)
    if migration.state == "rolled back":
        raise typer.Exit(1)


@migrate.command("run")
def run_command(view: ViewName, by: By = None) -> None:
    """Take all steps, one after the other, checking every two seconds. Can be interrupted and started again.

    Exit code 1 if a check failed or somebody rolled it back: readers are then on the old version.
    """
    from anabranch.apps.cli._context import project_views
    from anabranch.change.migrate.migration import advance as step
    from anabranch.core.errors import Conflict, TryAgain
    from anabranch.core.settings import user_at_host

    settings, registry = project_views()
    versions, printed_code = _versions(settings, registry, view), ""
    while True:
        try:
            migration = step(settings, *versions, by=by or user_at_host())
        except TryAgain as wait:
            # Print why it waits (a stream is behind, a check can't run), once, and not for a normal soak time.
            if wait.code not in ("SOAKING", printed_code):
                typer.echo(str(wait), err=True)
            printed_code = wait.code
            time.sleep(_POLL_SECONDS)
            continue
        except Conflict as moved:
            migration = _as_it_is_now(settings, view, moved)
            if migration.active:
                versions = _versions(settings, registry, view)
                continue
        _print_migration(settings, migration)
        if migration.state != "moving":
            break
    if migration.state == "rolled back":
        raise typer.Exit(1)


@migrate.command()
def halt(view: ViewName, why: Why, by: By = None) -> None:
    """Halt the migration: readers keep their versions, and the checks continue."""
    from anabranch.change.migrate.migration import halt as change

    _change(change, view, by, why)


@migrate.command()
def resume(view: ViewName, why: Why, by: By = None) -> None:
    """Continue after a halt; the soak time of the current step starts again."""
    from anabranch.change.migrate.migration import resume as change

    _change(change, view, by, why)


@migrate.command()
def hasten(view: ViewName, why: Why, by: By = None) -> None:
    """Take the next step as soon as its checks pass, without waiting for the current soak time."""
    from anabranch.change.migrate.migration import skip_soak as change

    _change(change, view, by, why)


@migrate.command()
def rollback(view: ViewName, why: Why, by: By = None) -> None:
    """Move all readers back to the old version immediately, also after the migration is done."""
    from anabranch.change.migrate.migration import rollback as change

    _change(change, view, by, why)


@migrate.command()
def retire(
    view: ViewName,
    version: VersionNumber,
    why: Why,
    grace: Annotated[str, typer.Option(help="How long it must have been without readers, '7 days'.")] = "7 days",
    by: By = None,
) -> None:
    """Retire a version: it can't be read, and is no longer updated. Its tables stay; see `reinstate`, `drop`."""
    from datetime import timedelta

    from anabranch.change.migrate.migration_request import seconds_of
    from anabranch.core.settings import load_settings, user_at_host
    from anabranch.lake.layout import VersionRef
    from anabranch.serve.retirement import retire as change

    patience = timedelta(seconds=seconds_of(grace, "grace"))
    change(VersionRef(load_settings(), view, version), by=by or user_at_host(), why=why, grace=patience)
    typer.echo(f"{view} v{version} is retired; to delete its tables: anabranch migrate drop {view} {version}")


@migrate.command()
def reinstate(view: ViewName, version: VersionNumber, why: Why, by: By = None) -> None:
    """Undo a retirement: the version's stream continues where it was."""
    from anabranch.change.replay.control import reinstate_version
    from anabranch.core.settings import load_settings, user_at_host
    from anabranch.lake.layout import VersionRef

    reinstate_version(VersionRef(load_settings(), view, version), by=by or user_at_host(), why=why)
    typer.echo(f"{view} v{version} can be read again, once its stream has caught up")


@migrate.command()
def drop(
    view: ViewName,
    version: VersionNumber,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Delete the tables of a retired version. They can only be rebuilt from history."""
    from anabranch.change.replay.control import drop_version
    from anabranch.core.settings import load_settings, user_at_host
    from anabranch.lake.layout import VersionRef

    if not yes:
        typer.confirm(f"Delete the tables of {view} v{version}?", abort=True)
    freed = drop_version(VersionRef(load_settings(), view, version), user_at_host())
    typer.echo(f"{freed / 1e6:,.1f} MB freed")


def _change(change: Callable[..., Migration], view: str, by: str | None, why: str) -> None:
    from anabranch.core.settings import load_settings, user_at_host

    settings = load_settings()
    _print_migration(settings, change(settings, view, by=by or user_at_host(), why=why))


def _versions(settings: Settings, registry: Registry, view: str) -> tuple[View, View]:
    """Returns the old and the new version of the view's migration. Raises Conflict NOT_MOVING if there is none."""
    from anabranch.change.migrate.migration_record import active_migration

    _, migration = active_migration(settings, registry.get(view).name)
    return registry.get(view, migration.old), registry.get(view, migration.new)


def _as_it_is_now(settings: Settings, view: str, moved: Conflict) -> Migration:
    """Returns the migration after a person or another process changed it first: its checks must continue. Raises
    ``moved`` if it is another conflict, or if the route no longer belongs to a migration."""
    from anabranch.change.migrate.migration_record import migration_of

    newest = migration_of(settings, view)
    if moved.code not in ("ROUTE_MOVED", "NOT_MOVING") or newest is None:
        raise moved
    return newest[1]


def _print_migration(settings: Settings, migration: Migration) -> None:
    from anabranch.serve.routes import route_of

    route = route_of(settings, migration.view)
    typer.echo(printable(f"{migration}{f': {route.why}' if route else ''}"))
