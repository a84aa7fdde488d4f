"""Escapes control characters in text from outside before it is printed in a terminal, or written into a comment."""

from __future__ import annotations

import re

# Control characters (except line breaks and tabs), lone surrogates, and characters that change the text direction.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with control characters escaped: otherwise an event could move the cursor or rename the window."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def in_json(text: str) -> str:
    """The same for a JSON text: it stays the same JSON."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_one_line(text: str) -> str:
    """``text`` with everything escaped that isn't printable, line breaks too: it can't end a comment."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def cell(text: str) -> str:
    """The same for a cell of a Rich table, which interprets brackets as markup."""
    from rich.markup import escape

    return escape(printable(text))
