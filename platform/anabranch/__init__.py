"""Anabranch: one view definition, two paths over the same log, proven equal at the same position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.serving import Reading, read

__all__ = ["Reading", "read"]


def __getattr__(name: str) -> Any:
    """``anabranch.read`` on first use: importing the package alone stays cheap."""
    if name in __all__:
        from anabranch import serving

        return getattr(serving, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
