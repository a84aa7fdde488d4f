"""Anabranch: one view definition, two paths over the same log, proven equal at the same position."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.explaining import Explanation, explain
    from anabranch.serving import Reading, read

__all__ = ["Explanation", "Reading", "explain", "read"]
_FACES = {"Explanation": "explaining", "explain": "explaining", "Reading": "serving", "read": "serving"}


def __getattr__(name: str) -> Any:
    """``anabranch.read`` and ``anabranch.explain`` on first use: importing the package alone stays cheap."""
    if name in _FACES:
        return getattr(import_module(f"anabranch.{_FACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
