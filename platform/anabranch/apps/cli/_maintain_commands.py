"""``anabranch maintain``: merges small files, deletes old ones, and reports it."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(maintain)


def maintain(
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be done, and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Merge small files; delete old files, commits, builds, checkpoints and logs that are no longer needed. The DAG
    maintain does it every hour. Exit code 1 if something failed; the rest was done."""
    from anabranch.core.settings import load_settings
    from anabranch.operate.maintenance import maintain as run

    done = run(load_settings(), plan=plan)
    typer.echo(json.dumps(done.to_json()) if as_json else str(done))
    if done.failed:
        raise typer.Exit(1)
