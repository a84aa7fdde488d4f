"""Render certificates, differences and late changes as text tables; only the cells that differ are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from anabranch.certify.breaking_changes import undeclared_text
from anabranch.certify.certificates import Certificate
from anabranch.certify.compare_versions import VersionComparison
from anabranch.certify.differences import Difference
from anabranch.core.text.terminal_text import cell as shown
from anabranch.core.text.terminal_text import printable
from anabranch.views import View

_WIDTH = 140


def differences_table(view: View, partition: date | None, rows: Sequence[Difference]) -> Table:
    """Return a table with one line per cell that differs; a row's key and events are shown on its first line."""
    where = f" on {partition}" if partition else ""
    table = Table(title=f"{view.name} v{view.version}: {len(rows)} rows differ{where}", title_justify="left")
    for heading in (*view.key, "row is", "column", "speed", "expected", "source events"):
        table.add_column(shown(heading), overflow="fold")
    for difference in rows:
        first = [shown_value(difference.key[name]) for name in view.key] + [difference.kind]
        events = _events(difference)
        for index, cell in enumerate(difference.cells):
            head, tail = (first, events) if index == 0 else ([""] * len(first), "")
            values = (*head, cell.column, shown_value(cell.speed), shown_value(cell.expected), tail)
            table.add_row(*map(shown, values), end_section=index == len(difference.cells) - 1)
    return table


def certificates_table(view: str, version: int, certificates: Sequence[Certificate]) -> Table:
    """Return a table with one line per certificate, ordered by partition."""
    equal = sum(certificate.equal for certificate in certificates)
    title = f"{view} v{version}: {equal} of {len(certificates)} equal"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("partition", no_wrap=True)
    for heading in ("", "cut", "rows", "late", "hash", "run"):
        table.add_column(heading, justify="right" if heading in {"rows", "late", "hash"} else "left", overflow="fold")
    for c in sorted(certificates, key=lambda c: (c.partition is not None, c.partition or date.min)):
        mark = "[green]equal[/]" if c.equal else "[red]DIFFERS[/]"
        rows = f"{c.speed.rows:,}" if c.equal else f"{c.speed.rows:,} of {c.expected.rows:,}"
        day, hashed = str(c.partition or "whole view"), f"{c.speed.hash_xor & 0xFFFFFFFF:08x}"
        table.add_row(day, mark, shown(str(c.cut)), rows, f"{c.late_events:,}", hashed, shown(c.run))
    return table


def version_lines(found: VersionComparison) -> Iterator[str]:
    """Yield lines that say what the new version takes away from readers, and then which columns of the two versions are
    equal, differ as declared, or differ undeclared."""
    by = f"summed by {', '.join(found.key)}" if found.summed else f"row by row, by {', '.join(found.key)}"
    for change in found.breaking:
        said = "declared" if change.column in found.changed else "NOT DECLARED"
        yield f"BREAKING, {said}: {change}"
    yield f"{found.view} v{found.old} and v{found.new} at {found.cut}, {found.compared} partitions, {by}"
    cells = {c: sum(p.cells.get(c, 0) for p in found.partitions) for c in found.columns}
    days = {c: sum(c in p.cells for p in found.partitions) for c in found.columns}
    for column in found.columns:
        declared = "as declared" if column in found.changed else "NOT DECLARED"
        differs = f"{cells[column]:,} differ, on {days[column]} partitions: {declared}"
        yield f"  {column}: {differs if cells[column] else 'equal'}"
    alone = {found.old: sum(p.only_old for p in found.partitions), found.new: sum(p.only_new for p in found.partitions)}
    yield from (f"  {count:,} rows are in v{version} only" for version, count in alone.items() if count)
    for what, names in (("not compared", found.skipped), ("added", found.added)):
        if names:
            yield f"  {what}: {', '.join(names)}"
    for cell in found.examples:
        at = " ".join(f"{name}={shown_value(value)}" for name, value in cell.key.items())
        yield f"    {cell.column} {shown_value(cell.old)} -> {shown_value(cell.new)}  {at}"
    if found.undeclared:
        yield undeclared_text(found.old, found.new, found.breaking, found.changed)
    if found.unexpected:
        yield f"{len(found.unexpected)} partitions differ in more than the declared columns"
    if found.as_declared:
        yield "only the declared columns differ"


def render_differences(view: View, partition: date | None, rows: Sequence[Difference]) -> str:
    """Return ``differences_table`` as plain text, for logs and error messages."""
    text = StringIO()
    Console(file=text, width=_WIDTH).print(differences_table(view, partition, rows))
    return text.getvalue()


def shown_value(value: Any) -> str:
    """Format a value for people: a dash for null, times without microseconds if they are 0."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S" + (".%f" if value.microsecond else ""))
    return printable(str(value))


def _events(difference: Difference) -> str:
    if not difference.events:
        return "none: no event in landing produces this row"
    shown = ", ".join(str(event) for event in difference.events)
    more = difference.event_count - len(difference.events)
    unverified = "" if difference.verified or difference.expected is None else " (not verified)"
    return shown + (f" and {more} more" if more else "") + unverified
