"""Anabranch: one view definition, two paths over the same log, proven equal at the same position."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anabranch.core.extras import needs_extras
from anabranch.core.old_names import keep_old_names

if TYPE_CHECKING:
    from anabranch.ingest.kafka.send import send, send_all
    from anabranch.operate.explain import Explanation, explain
    from anabranch.operate.trial import Trial, landed_events, try_view
    from anabranch.serve import Reading, read

__all__ = ["Explanation", "Reading", "Trial", "explain", "landed_events", "read", "send", "send_all", "try_view"]
_FACES = {
    **dict.fromkeys(("Explanation", "explain"), "operate.explain"),
    **dict.fromkeys(("Trial", "landed_events", "try_view"), "operate.trial"),
    **dict.fromkeys(("Reading", "read"), "serve"),
    **dict.fromkeys(("send", "send_all"), "ingest.kafka.send"),
}

keep_old_names()


def __getattr__(name: str) -> Any:
    """``anabranch.read`` and the others on first use: importing the package alone stays cheap."""
    if name in _FACES:
        with needs_extras():
            return getattr(import_module(f"anabranch.{_FACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
