"""What the text of a string may be, besides times, dates and decimals.

Formats of strings that stay strings: ``uuid`` (RFC 4122's text, in any case) and ``time`` (RFC 3339's time of day, with
or without an offset). They restrict a text, as a pattern does: its type is that of any string, and it is stored as it
was sent. Bytes in base64 (``"contentEncoding": "base64"``: RFC 4648's alphabet with ``+`` and ``/``, padded, in one
line) are a type of their own: the column holds the bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

_OFFSET: Final = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
TEXT_FORMATS: Final[Mapping[str, str]] = {
    "uuid": r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "time": rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,9}})?{_OFFSET}?",
}
"""The format's name, and a regular expression for Java and Python that the whole text must match."""


DATE_TIME: Final = (
    r"(?!0000|0001-01-01T.*\+(?!00:00)|9999-12-31T.*-(?!00:00))[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00)"
)
"""The same of an RFC 3339 time that lies in the years 1 to 9999 in UTC, with an offset that Java knows. It doesn't say
whether there is such a day."""
DATE: Final = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
BASE64: Final = "[A-Za-z0-9+/]*+={0,2}"
"""The same of bytes; the text's length is a multiple of four, too."""


def is_bytes(node: Mapping[str, Any]) -> bool:
    """Whether a string holds bytes in base64."""
    return node.get("contentEncoding") == "base64"


def is_base64(text: str) -> bool:
    return len(text) % 4 == 0 and re.fullmatch(BASE64, text) is not None


def is_text_format(node: Mapping[str, Any]) -> bool:
    return node.get("format") in [*TEXT_FORMATS]


def is_plain(node: Mapping[str, Any]) -> bool:
    """Whether a node's values are stored as they are sent: it has no format, or one of these, and no encoding."""
    return ("format" not in node or is_text_format(node)) and not is_bytes(node)


def has_format(text: str, name: str) -> bool:
    """Whether a text is of one of these formats."""
    return re.fullmatch(TEXT_FORMATS[name], text) is not None


def format_checks() -> dict[str, Callable[[str], bool]]:
    """The same and ``base64`` for ``jsonschema_rs``, which knows some of them otherwise or not at all."""
    return {"base64": is_base64, **{name: partial(has_format, name=name) for name in TEXT_FORMATS}}
