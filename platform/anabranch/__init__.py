"""Anabranch: one view definition, two paths over the same log, proven equal at the same position."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anabranch.core.extras import needs_extras
from anabranch.core.old_names import keep_old_names

if TYPE_CHECKING:
    from anabranch.ingest.kafka.send import send, send_all
    from anabranch.operate.explain import Explanation, explain
    from anabranch.serve import Reading, read

__all__ = ["Explanation", "Reading", "explain", "read", "send", "send_all"]
_FACES = {
    "Explanation": "operate.explain",
    "explain": "operate.explain",
    "Reading": "serve",
    "read": "serve",
    "send": "ingest.kafka.send",
    "send_all": "ingest.kafka.send",
}

keep_old_names()


def __getattr__(name: str) -> Any:
    """``anabranch.read`` and the others on first use: importing the package alone stays cheap."""
    if name in _FACES:
        with needs_extras():
            return getattr(import_module(f"anabranch.{_FACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
