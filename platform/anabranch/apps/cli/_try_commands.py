"""``anabranch try``: runs a view over landed events before it is declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._read_commands import plain, rows_table
from anabranch.apps.cli._tables import print_whole
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.operate.trial import Trial


def register(app: typer.Typer) -> None:
    app.command("try")(try_command)


def try_command(
    file: Annotated[str, typer.Argument(help="A .py or .sql file with a view. It need not be in the project.")],
    days: Annotated[str, typer.Option(help="2013-01-01 or 2013-01-01..2013-01-03; none for a kappa view.")] = "",
    view: Annotated[str | None, typer.Option(help="Which view, if the file has several.")] = None,
    rows: Annotated[int, typer.Option(min=0, max=1000, help="Maximum number of rows shown.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a view over landed events, as a batch and as a stream, and compare both. Changes nothing. Starts Spark.

    Exit code 1 if the paths differ.
    """
    import anabranch
    from anabranch.apps.cli._context import project

    settings, declarations = project()
    found = anabranch.try_view(
        Path(file), days=days, name=view, limit=rows or 1, settings=settings, declarations=declarations
    )
    if as_json:
        typer.echo(json.dumps(found.to_json(rows), default=plain))
    else:
        _print(found, rows)
    if not found.equal:
        raise typer.Exit(1)


def _print(found: Trial, rows: int) -> None:
    from anabranch.certify.rendering import differences_table
    from anabranch.compute.batch.manifest import days_text

    view, total = found.view, found.rows.num_rows
    where = days_text(found.days) if found.days else "the whole view"
    typer.echo(printable(f"{view.name} v{view.version} ({view.origin}), {where}, at {found.cut}"))
    if rows and total:
        print_whole(rows_table(found.rows.schema, found.rows.slice(0, rows).to_pylist()))
    typer.echo(f"rows:    {min(rows, total):,} of {total:,} shown")
    late = f", {found.late:,} of them late" if found.late else ", none of them late"
    typer.echo(f"events:  {found.events:,}{late}")
    typer.echo(f"batch:   {found.batch_seconds:.1f} s")
    typer.echo(f"stream:  {found.stream_seconds:.1f} s, in {found.slices} steps")
    certificates = found.certificates
    equal = len(certificates) - len(found.unequal)
    of = f"{equal} of {len(certificates)} days" if found.days else "the whole view"
    if found.equal:
        typer.echo(f"equal:   {of}. Nothing of the platform was changed")
        return
    first = found.unequal[0]
    typer.echo(
        f"DIFFERS: {first.partition or 'the whole view'}: {first.speed.rows:,} rows as a stream, "
        f"{first.expected.rows:,} as a batch ({of} equal). Nothing of the platform was changed"
    )
    if found.differences:
        print_whole(differences_table(view, first.partition, found.differences))
