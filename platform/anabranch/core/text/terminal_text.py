"""Escapes control characters in text from outside before it is printed in a terminal."""

from __future__ import annotations

import re

# Control characters (except line breaks and tabs), lone surrogates, and characters that change the text direction.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with control characters escaped: otherwise an event could move the cursor or rename the window."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def cell(text: str) -> str:
    """The same for a cell of a Rich table, which interprets brackets as markup."""
    from rich.markup import escape

    return escape(printable(text))
