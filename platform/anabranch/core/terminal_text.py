"""Text from outside, for a terminal: what a terminal would obey is shown instead."""

from __future__ import annotations

import re

# Control characters (but line breaks and tabs), halves of characters, and what turns the direction of writing.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with those as Python writes them: an event could move the cursor, or rename the window, else."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def cell(text: str) -> str:
    """The same as a cell of one of Rich's tables, which takes brackets for markup."""
    from rich.markup import escape

    return escape(printable(text))
