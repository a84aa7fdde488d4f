"""One declared view version: its name, events, key, partitions and function, validated when it is made.

In: the arguments of the decorator ``view``. Out: a frozen ``View``, or BadDefinition with file and line.

``definition`` has the ``View``, the columns that every table of a view has apart from its own, and the error for one
that is refused; ``handle`` is such a view in one home, with the topics that it reads; ``canonical`` makes cells of rows
comparable (NaN, time zones, the order of maps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["canonical", "definition", "handle"]
