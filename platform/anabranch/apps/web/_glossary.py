"""The words of the pages, explained where they stand. docs/glossary.md has the same, held by a test."""

from __future__ import annotations

from collections.abc import Mapping

TERMS: Mapping[str, str] = {
    "cut": "a position of the log: for each topic an epoch and the offsets that it represents. Everything derived "
    "names the cut that it covers",
    "level": "a view that covers every epoch that has landed",
    "certificate": "record that both paths of a partition were equal at a cut, or where they differed, with counts and "
    "hashes",
    "equal": "said of a partition: at one cut both paths gave the same rows",
    "publish": "one commit that makes certified partitions visible; it writes to no other system",
    "dirty partition": "a published partition for which later events have landed",
    "late event": "one that came after the watermark had passed (event_time < W(e) - L). Landing decides it once, for "
    "all views. In a view with days it is in the batch half only; the stream of a kappa view takes it",
    "replay": "running a view's stream again from history, published in one commit",
    "retire": "ending a version that nobody reads; its tables are deleted later, on request",
}
