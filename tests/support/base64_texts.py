"""Texts that are bytes in base64, and texts that aren't."""

from __future__ import annotations

import base64
from typing import Any, Final

BASE64: Final[dict[str, bytes]] = {
    "": b"", "AA==": b"\x00", "AAH/": b"\x00\x01\xff", "YQ==": b"a", "YWI=": b"ab", "YWJj": b"abc",
    "++//": b"\xfb\xef\xff",
    "1234": b"\xd7m\xf8", "true": b"\xb6\xbb\x9e", "null": b"\x9e\xe9e", "A" * 40_000: bytes(30_000),
}  # fmt: skip
NO_BASE64: Final[tuple[Any, ...]] = (
    "A", "AA", "AAA", "AA=", "A===", "====", "=", "==", "AA==AA==", "AAA=AAAA", "-_-_", "AA A", " AAAA", "AAAA ",
    "AAAA\n", "AAAA\r\nAAAA", "AAA\u00e4", "\uff21AAA", "AA==\n", "AAAA=", 1234, True, [], {}, 12.5,
)  # fmt: skip


def bytes_in(text: str) -> bytes | None:
    """The bytes in a text, by the standard library; it ignores padding that is too long, so the length is compared."""
    try:
        found = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        return None
    return found if len(base64.b64encode(found)) == len(text) else None
