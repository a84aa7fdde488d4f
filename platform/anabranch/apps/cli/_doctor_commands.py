"""``anabranch doctor``: what is wrong, where, and the command that fixes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.core.errors import BadInput
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.core.settings import Settings
    from anabranch.operate.doctor import Check

Commits = Annotated[
    int, typer.Option(min=0, help="How many of the newest commits of each table to check one by one; 0: all kept.")
]

Rows = Annotated[
    int | None,
    typer.Option(
        min=0, help="Recompute this number of partitions of each half (0: all), and decode landing. Starts Spark."
    ),
]
Sent = Annotated[
    Path | None,
    typer.Option(
        help="The producer's file of all that was sent: compare a sample's views with it (anabranch-samples)."
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    commits: Commits = 1_000,
    rows: Rows = None,
    sent: Sent = None,
) -> None:
    """Check the invariants of tables, control files and the log's offsets. The platform may run or be stopped.
    Changes nothing. Exit code 1 if something is broken."""
    from anabranch.apps.cli._context import project
    from anabranch.operate.doctor import CHECKS, Context, examine, log_of
    from anabranch.views import load_views

    settings, declared = project()
    views = load_views(settings.views_folder, declared)
    platform = Context(settings, declared, views, log_of(settings), commits)
    with _more_checks(settings, rows, sent) as more:
        report = examine(platform, (*CHECKS, *more))
    typer.echo(json.dumps(report.to_json()) if as_json else printable(str(report)))
    if report.broken:
        raise typer.Exit(1)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a null byte
        return False


@contextmanager
def _more_checks(settings: Settings, rows: int | None, sent: Path | None) -> Iterator[list[Check]]:
    """The optional checks, which compute rows."""
    from anabranch.apps.cli.plugins import sample_checks
    from anabranch.core.engine.lifetime import engine
    from anabranch.operate.doctor import decode_check, recompute_checks

    if sent is not None and not _is_file(sent):
        wrong = f"--sent: {sent} is not a file"
        raise BadInput("NO_FILE", wrong, state="nothing was checked", next_step="give one of produced/", field="sent")
    without_engine = sample_checks(sent) if sent is not None else []
    if rows is None:
        yield without_engine
        return
    with engine(settings, "anabranch-doctor") as spark:
        yield [*recompute_checks(spark, rows), decode_check(spark), *without_engine]
