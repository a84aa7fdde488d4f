"""Metrics by StatsD's protocol over UDP: packets in, events of ``METRIC`` out, one for each sample.

``__main__`` runs ``_receiver``, which takes packets, has ``_lines`` read them, and gives the events to the broker.
Nothing is aggregated: views do that. What UDP or a broker that is away costs is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = []
