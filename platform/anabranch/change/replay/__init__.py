"""Replay: run a view's stream again from history, next to the live one, and publish the result atomically (ADR 0018).

In: a ``ReplayRequest`` (``request``). Out: one commit of the live speed table, or none, and a ``ReplayState``.

``runner`` executes the steps in this order: ``control`` takes the lock of the version's replays; ``_feed`` releases
landing's commits in slices, through ``landing_mirror`` (or ``_log_mirror``, which decodes the log's bytes again), to a
second stream; ``rate_limit`` and ``_cpu_throttle`` bound its use of CPU; ``_keep_live_epochs`` gives unchanged rows
their live epochs; ``_certify`` compares the result with the view's function; ``publish`` commits it; ``cleanup``
deletes the replay's files. ``state`` stores the progress, and what people ask of a running replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["cleanup", "control", "landing_mirror", "publish", "rate_limit", "request", "runner", "state"]
