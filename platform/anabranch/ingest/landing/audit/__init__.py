"""Audit: proves that landing has every record of the log once, and lets people decide about the exceptions.

In: a landing table and the broker. Out: a ``Proof`` with each offset that isn't accounted for, and tables for people.

``verify`` compares the table with the log; ``accepted_losses`` records what was lost and accepted. ``quarantine`` lists
invalid records with their reasons, and releases those that a new contract version makes valid. ``report`` prints both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["accepted_losses", "quarantine", "report", "verify"]
