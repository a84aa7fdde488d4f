"""``anabranch backup create``, ``list`` and ``verify``, and ``anabranch restore``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="The folder that the backups are in: on another disk.")]
Name = Annotated[str | None, typer.Option("--backup", help="The backup's name, as list shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Back up what can't be made again, to another disk.")
    group.command("create")(create_command)
    group.command("list")(list_command)
    group.command("verify")(verify_command)
    app.add_typer(group, name="backup")
    app.command("restore")(restore_command)


def create_command(
    folder: Folder,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Afterwards keep only the newest KEEP backups; default: all."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back up landing, contracts, definitions, routes and certificates, while the platform runs. Copies what is new."""
    from anabranch.core.settings import load_settings
    from anabranch.operate.backup import create_backup

    made = create_backup(load_settings(), folder, keep)
    typer.echo(json.dumps(made.to_json()) if as_json else str(made))


def list_command(folder: Folder, as_json: AsJson = False) -> None:
    """List the complete backups of a folder, oldest first. Changes nothing."""
    from anabranch.operate.backup import list_backups

    found = list_backups(folder)
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in found]))
        return
    for each in found:
        covers = ", ".join(filter(None, each.covers)) or "nothing landed"
        typer.echo(f"{each.name}  {covers}  {len(each.files):,} files ({each.size / 1e6:,.2f} MB)")


def verify_command(folder: Folder, backup: Name = None, as_json: AsJson = False) -> None:
    """Read every file of all backups (or of one) again and compare its hash. Changes nothing. Exit code 1 if a file is
    missing or has other bytes."""
    from anabranch.operate.backup import verify_backups

    found = verify_backups(folder, backup)
    typer.echo(json.dumps(found.to_json()) if as_json else str(found))


def restore_command(folder: Folder, backup: Name = None, as_json: AsJson = False) -> None:
    """Restore the newest backup (or one) into the home, which must be empty, and print the commands that come next."""
    from anabranch.core.settings import load_settings
    from anabranch.operate.backup import restore_backup

    done = restore_backup(load_settings(), folder, backup)
    typer.echo(json.dumps(done.to_json()) if as_json else str(done))
