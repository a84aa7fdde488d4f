"""Text: what terminals, people and other programs get to read.

In: values of any origin, also hostile ones. Out: text that is safe to print, figures that people read, JSON values.

``terminal_text`` escapes control characters and aligns cells, ``quantities`` formats counts and durations,
``strict_json`` reads JSON as the standard has it (no NaN, no text nested too deeply).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["quantities", "strict_json", "terminal_text"]
