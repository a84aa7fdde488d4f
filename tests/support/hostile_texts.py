"""Texts as somebody would write them who wants more than a value to be read."""

from __future__ import annotations

from pathlib import Path

CANARY = Path("/tmp/anabranch-executed")  # noqa: S108 - what a hostile text would make, were it executed
HOSTILE = [
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"; touch {CANARY} #",
    "'; DROP TABLE landing; --",
    "../../../etc/passwd",
    "${jndi:ldap://127.0.0.1/x}",
    "{{ conn.get('postgres') }}",
    "a\x00b",
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "-rf",
    "CON",
    "x" * 5_000,
    " ",
    "",
]
