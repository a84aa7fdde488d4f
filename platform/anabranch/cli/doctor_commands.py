"""``anabranch doctor``: what is wrong, where, and the command that mends it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

Commits = Annotated[
    int, typer.Option(min=0, help="So many of the newest commits of each table one by one; 0: all that are kept.")
]


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, commits: Commits = 1_000
) -> None:
    """Hold tables, control files and the log's offsets to what must be true, running or stopped. Changes nothing.
    Exit code 1 when something is broken."""
    from anabranch.cli.project import project
    from anabranch.doctor.examining import examine, log_of
    from anabranch.doctor.looking import Platform
    from anabranch.views import load_views

    settings, declared = project()
    views = load_views(settings.project / "spark_jobs" / "views", declared)
    report = examine(Platform(settings, declared, views, log_of(settings), commits))
    typer.echo(json.dumps(report.to_json()) if as_json else str(report))
    if report.broken:
        raise typer.Exit(1)
