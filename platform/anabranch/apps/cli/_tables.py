"""Prints tables that fit a narrow terminal, for example of 80 columns: nothing is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text, TextType

_ENDLESS = 1_000_000
"""A width that no table needs: Rich measures at most what is given."""
_FOLDED = 12
"""Words of columns that may be folded (ids, paths) stay whole up to this length."""


def print_whole(table: Table) -> None:
    """Print a table with line breaks between words only; if it is too wide for that, with long words folded where a
    column allows it; if that is too wide, too, each row as lines of its own, as in psql's expanded mode."""
    from rich.console import Console

    console, shown = Console(highlight=False), deepcopy(table)
    title, caption = _unlimited(table.title), _unlimited(table.caption)
    shown.title = shown.caption = None  # Rich would break them at the width of the table
    if title:
        console.print(title)
    if _fit(console, shown):
        console.print(shown)
    else:
        _print_rows(console, shown)
    if caption:
        console.print(caption)


def _fit(console: Console, table: Table) -> bool:
    """Set the widths of the columns. Returns whether the table fits: with whole words, or with folded ones."""
    from rich.measure import Measurement

    whole = [_longest(column, (column.header, *column.cells)) for column in table.columns]
    folded = [
        max(min(width, _FOLDED), _longest(column, (column.header,))) if column.overflow == "fold" else width
        for column, width in zip(table.columns, whole, strict=True)
    ]
    for column, width in zip(table.columns, whole, strict=True):
        column.width = width
    borders = Measurement.get(console, console.options.update(width=_ENDLESS), table).minimum - sum(whole)
    for widths in (whole, folded):
        spare = console.width - borders - sum(widths)
        if spare >= 0:
            _widen(table.columns, widths, spare)
            return True
    return False


def _widen(columns: Sequence[Column], widths: Sequence[int], spare: int) -> None:
    """Give the rest of the line to columns whose texts are longer, the same to each. Rich itself would narrow its
    widest columns, within words."""
    lacking = [
        (max(0, _longest(column, (column.header, *column.cells), words=False) - width), width, column)
        for column, width in zip(columns, widths, strict=True)
    ]
    lacking.sort(key=lambda each: each[0])
    for number, (lack, width, column) in enumerate(lacking):
        more = min(lack, spare // (len(lacking) - number))
        column.width, spare = width + more, spare - more


def _print_rows(console: Console, table: Table) -> None:
    from rich.table import Table as Lines

    for row in zip(*(column.cells for column in table.columns), strict=True):
        lines = Lines(box=None, show_header=False, pad_edge=False)
        lines.add_column(no_wrap=True, style="bold")
        lines.add_column(overflow="fold")
        for column, cell in zip(table.columns, row, strict=True):
            if str(cell):
                lines.add_row(column.header, cell)
        console.print(lines)
        console.print()


def _unlimited(title: TextType | None) -> Text | None:
    from rich.text import Text

    if title is None:
        return None
    text = Text.from_markup(title) if isinstance(title, str) else title.copy()
    text.no_wrap = text.overflow = None
    return text


def _longest(column: Column, cells: Sequence[Any], *, words: bool = True) -> int:
    """The width of the longest word of these cells; of the longest line, if lines are not broken."""
    from rich.text import Text

    texts = [Text.from_markup(str(cell)) for cell in cells]
    parts = (text.plain.split() if words and not column.no_wrap else text.plain.splitlines() for text in texts)
    return max((Text(part).cell_len for each in parts for part in each), default=0)
