"""``anabranch migrate``: readers to the next version of a view, in steps, with checks between them and a way back."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anabranch.change.migration import Migration
    from anabranch.settings import Settings
    from anabranch.views import Registry, View

migrate = typer.Typer(no_args_is_help=True, help="Migrations: readers from one version of a view to the next.")
ViewName = Annotated[str, typer.Argument(help="The view's name.")]
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
    why: Annotated[str, typer.Option(help="Why, for the history.")],
    steps: Annotated[str, typer.Option(help="The shares in percent, one after the other.")] = "1,5,25,50,100",
    soak: Annotated[str, typer.Option(help="How long each step is watched, '10 minutes'.")] = "10 minutes",
    changed: Annotated[list[str] | None, typer.Option(help="A column that is meant to differ; repeatable.")] = None,
    check: Annotated[list[str] | None, typer.Option(help="An SQL predicate that each row keeps; repeatable.")] = None,
    behind: Annotated[int, typer.Option(min=0, help="Epochs that a version may be behind landing.")] = 30,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve it without being asked.")] = False,
) -> None:
    """Compare both versions, ask for your approval, and write it down. Moves nobody yet: `migrate run` does."""
    from anabranch.change.gates import Promise
    from anabranch.change.migration import start as begin
    from anabranch.reconcile.rendering import version_lines
    from anabranch.reconcile.versions import compare_versions
    from anabranch.serving.routes import this_reader

    settings, registry = _load()
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
        steps=_steps(steps),
        soak_seconds=_seconds(soak),
        promise=Promise(tuple(changed or ()), tuple(check or ()), behind),
    )
    typer.echo(_line(made))


@migrate.command()
def status(view: ViewName, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """How far the newest migration of a view has come, and why its readers are where they are."""
    from anabranch.change.migration import migration_of
    from anabranch.settings import load_settings

    found = migration_of(load_settings(), view)
    if as_json:
        typer.echo(json.dumps(found[1].to_json() if found else None))
    elif found is None:
        typer.echo(f"{view}: no migration")
    else:
        typer.echo(f"{_line(found[1])}\n  by {found[0].changed_by}: {found[0].why}")


@migrate.command()
def advance(view: ViewName, by: By = None) -> None:
    """Check, and go one step further. Exit code 1 when a check failed: readers are back on the old version then."""
    from anabranch.change.migration import advance as step
    from anabranch.serving.routes import this_reader

    settings, registry = _load()
    made = step(settings, *_versions(settings, registry, view), by=by or this_reader())
    _told(settings, made)
    if made.state == "rolled back":
        raise typer.Exit(1)


@migrate.command("run")
def run_command(view: ViewName, by: By = None) -> None:
    """Go on step by step until it is done, looking every two seconds. May be broken off and started again.

    Exit code 1 when a check failed, or somebody rolled it back: readers are on the old version then.
    """
    from anabranch.change.migration import advance as step
    from anabranch.errors import TryAgain
    from anabranch.serving.routes import this_reader

    settings, registry = _load()
    versions, told = _versions(settings, registry, view), ""
    while True:
        try:
            made = step(settings, *versions, by=by or this_reader())
        except TryAgain as wait:
            # It soaks, or a stream is behind: then not even a rollback can lead readers to it, and somebody must know.
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
def rollback(view: ViewName, why: Annotated[str, typer.Option(help="Why, for the history.")], by: By = None) -> None:
    """Lead all readers back to the old version, now. Also of a migration that is done."""
    from anabranch.change.migration import rollback as back
    from anabranch.serving.routes import this_reader
    from anabranch.settings import load_settings

    settings = load_settings()
    _told(settings, back(settings, view, by=by or this_reader(), why=why))


def _load() -> tuple[Settings, Registry]:
    from anabranch.cli.project import project
    from anabranch.views import load_views

    settings, declarations = project()
    return settings, load_views(settings.project / "spark_jobs" / "views", declarations)


def _versions(settings: Settings, registry: Registry, view: str) -> tuple[View, View]:
    """The old and the new version of the view's migration; Conflict NOT_MOVING where there is none."""
    from anabranch.change.migration import moving

    _, migration = moving(settings, registry.get(view).name)
    return registry.get(view, migration.old), registry.get(view, migration.new)


def _steps(text: str) -> list[int]:
    from anabranch.errors import BadInput

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        raise BadInput("STEPS_WRONG", f"{text[:40]!r} are no steps", next_step="write 1,5,25,50,100", field="steps")
    return [int(part) for part in parts]


def _seconds(text: str) -> float:
    from anabranch.errors import BadInput
    from anabranch.views.definition import duration

    try:
        return duration(text).total_seconds()
    except ValueError as error:
        raise BadInput("SOAK_WRONG", str(error), next_step="write '10 minutes'", field="soak") from None


def _told(settings: Settings, made: Migration) -> None:
    from anabranch.serving.routes import route_of

    route = route_of(settings, made.view)
    typer.echo(f"{_line(made)}{f': {route.why}' if route else ''}")


def _line(made: Migration) -> str:
    steps = ", ".join(f"[{share}]" if share == made.share else str(share) for share in made.steps)
    return f"{made.view} v{made.old} to v{made.new}: {made.state}, {made.share} % have v{made.new} (steps {steps})"
