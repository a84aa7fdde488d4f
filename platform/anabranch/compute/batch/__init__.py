"""The batch path: rebuild partitions from landing, stage them, and publish those that were certified.

In: a view, its topics, the partitions and the cut of a run. Out: a ``Build`` (staged files with a manifest), and later
one commit to the view's batch table that replaces exactly the certified partitions.

In the order in which they act: ``version_samples`` tries the view's function on a few events of every contract version;
``rebuild`` computes the partitions and stages their files; ``manifest`` records them; ``certify`` (another package)
judges them; ``publish`` commits. ``missing_days`` finds the late events that neither half holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["manifest", "missing_days", "publish", "rebuild", "version_samples"]
