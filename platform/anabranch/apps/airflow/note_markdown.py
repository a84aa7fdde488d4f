"""The text of a note as Markdown, which Airflow's pages render, and back.

A note quotes errors, and errors quote events: no link, image or HTML of theirs may become one. Only what would begin
one is escaped, so that a note is as readable where it is shown as it is (commands, webhooks, our pages). Bare addresses
stay links, which show where they lead.
"""

from __future__ import annotations

import re
from typing import Final

_TARGET: Final = re.compile(r"\](?=[(:])")
"""Behind a link's text: its address, or the definition of one."""
_TAG: Final = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")
_ESCAPED: Final = re.compile(r"\]\\(?=[(:])|\\(?=<)")


def as_markdown(text: str) -> str:
    """Escapes links, images and HTML."""
    return _TAG.sub(r"\1\\<", _TARGET.sub(r"]\\", text))


def as_text(note: str) -> str:
    """A note as it was before it was escaped."""
    return _ESCAPED.sub(lambda found: found[0].removesuffix("\\"), note)
