"""``anabranch read``: shows the served rows of a view, with their version, cut and certificates."""

from __future__ import annotations

import base64
import csv
import json
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.apps.cli._tables import print_whole
from anabranch.core.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from anabranch.serve import Reading

SHOWN = 20
"""Rows in a table if no limit is given; JSON and CSV have all rows."""


def register(app: typer.Typer) -> None:
    app.command("read")(read_command)


def read_command(
    view: Annotated[str, typer.Argument(help="The view's name.")],
    version: Annotated[int | None, typer.Option(help="Its version; default: the one from its route.")] = None,
    where: Annotated[str | None, typer.Option(help="An SQL predicate over the view's columns.")] = None,
    column: Annotated[list[str] | None, typer.Option("--columns", help="Only this column (repeatable).")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help=f"Maximum number of rows; {SHOWN} in a table.")] = None,
    prefer: Annotated[str, typer.Option(help="Which half serves: default, complete, fresh or speed.")] = "default",
    partition: Annotated[list[str] | None, typer.Option(help="Only this day (repeatable).")] = None,
    reader: Annotated[str | None, typer.Option(help="The reader's name, for the route; default: user@host.")] = None,
    at_least: Annotated[str | None, typer.Option(help="A position that must be covered, like flights@12.")] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for that position.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: rows and what they cover.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV; what it covers goes to stderr.")] = False,
) -> None:
    """Show the rows of a view as readers get them, then their version, cut, freshness and certificates."""
    import anabranch

    if as_json and as_csv:
        raise BadInput("FORMAT_TWICE", "--json and --csv exclude each other", next_step="leave one out")
    days = [day_of(text) for text in partition] if partition else None
    chosen: dict[str, Any] = {"where": where, "prefer": prefer, "partitions": days, "columns": column}
    reading = anabranch.read(view, version, reader=reader, at_least=at_least, wait_seconds=wait, **chosen)
    rows = reading.to_arrow()
    shown = rows.slice(0, limit if limit is not None else SHOWN if not (as_json or as_csv) else None).to_pylist()
    if as_json:
        typer.echo(json.dumps({"rows": shown, "total": rows.num_rows, **covered(reading)}, default=plain))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.column_names)
        writer.writerows([["" if v is None else plain(v) for v in row.values()] for row in shown])
        typer.echo(footer(reading), err=True)
    else:
        _print_table(reading, shown, rows.num_rows)


def _print_table(reading: Reading, rows: list[dict[str, Any]], total: int) -> None:
    from rich.console import Console

    print_whole(rows_table(reading.schema, rows))
    console = Console()
    console.print(f"{len(rows):,} of {total:,} rows", highlight=False)
    console.print(footer(reading), highlight=False, markup=False)


def rows_table(schema: pa.Schema, rows: list[dict[str, Any]]) -> Table:
    """Rows of a view as a table."""
    from rich.table import Table

    from anabranch.core.text.terminal_text import cell

    table = Table()
    for field in schema:
        number = str(field.type).startswith(("int", "decimal", "double", "float"))
        table.add_column(cell(field.name), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell("-" if value is None else str(plain(value))) for value in row.values()))
    return table


def covered(reading: Reading) -> dict[str, Any]:
    """Returns what a reading covers, as data."""
    freshness, found = reading.freshness, reading.certificates
    return {
        "view": reading.view,
        "version": reading.version,
        "cut": reading.cut.to_json(),
        "behind": reading.behind.to_json() if reading.behind else None,
        "committed": freshness.committed,
        "age_seconds": round(freshness.age_seconds, 3),
        "epochs_behind": freshness.behind,
        "late_missing": _late_missing(reading)[0],
        "certificates": {str(day): certificate.equal for day, certificate in found.items()},
        "halves": {str(day): half for day, half in reading.halves.items()},
    }


def footer(reading: Reading) -> str:
    """Returns the same as three lines of text."""
    freshness, found, halves = reading.freshness, reading.certificates, list(reading.halves.values())
    equal = sum(certificate.equal for certificate in found.values())
    behind = "all that is landed" if not freshness.behind else f"{freshness.behind} epochs behind landing"
    if reading.behind is not None:
        behind = f"behind {reading.behind}, which this reader has seen of another version; {behind}"
    lacking, unknown = _late_missing(reading)
    if lacking:
        behind += f" but {lacking:,} late events in no half"
    elif unknown:
        behind += f" (late events in no half: {unknown})"
    served = ", ".join(f"{halves.count(half)} by {half}" for half in ("batch", "speed") if half in halves)
    return (
        f"{reading.view} v{reading.version} at {reading.cut}, {behind}, "
        f"committed {_age(freshness.age_seconds)} ago ({freshness.committed:%Y-%m-%d %H:%M:%S} UTC)\n"
        f"certificates: {equal} of {len(halves)} partitions equal"
        f"{f', {len(found) - equal} NOT equal' if equal < len(found) else ''}"
        f"{f', {len(halves) - len(found)} not certified yet' if len(found) < len(halves) else ''}\n"
        f"partitions served: {served or 'none'}"
    )


def _late_missing(reading: Reading) -> tuple[int | None, str]:
    """Returns how many late events the reading lacks, or why that is unknown. Its rows are correct in any case."""
    try:
        found = reading.late_missing
    except Exception as error:  # landing or the stored definition is broken: the doctor says how
        return None, f"unknown, {getattr(error, 'code', type(error).__name__)}"
    return found, "" if found is not None else "unknown, no definition is stored"


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def day_of(text: str) -> date:
    """Parses a day. Raises BadInput DAY_UNREADABLE."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadInput(
            "DAY_UNREADABLE", f"{text[:40]!r} is not a day", next_step="write it like 2013-01-31", field="partition"
        ) from None


def plain(value: Any) -> Any:
    """Converts a value for JSON and CSV: times in UTC, bytes in base64, decimals as text so that no digit is lost."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if isinstance(value, (bool, int, float)) else str(value)
