"""Whether landing goes on with its checkpoint, or with its table alone.

The table knows all that the checkpoint does: which offsets have landed. So a checkpoint that says something else (put
back from an older copy, of another topic, torn, ahead of a table that was put back or moved away) costs nothing: it is
put aside, and landing goes on behind what is in the table. Going on with it instead would read offsets that the log
doesn't hold any more, or pass over some.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from anabranch.core.errors import BrokenState
from anabranch.ingest.landing.batch_offsets import first_offsets, kafka_offsets
from anabranch.lake.stream_checkpoint import batch_plan, check_whole, clear_unstarted, newest_batch

LOGGER = logging.getLogger(__name__)


def can_resume(checkpoint: Path, topic: str, landed: Mapping[int, int]) -> bool:
    """Whether a query over ``checkpoint`` goes on exactly behind ``landed``; else a new one is begun, and what lies
    there is moved to ``<checkpoint>.aside``. Called before each start, when no query runs over it."""
    clear_unstarted(checkpoint)
    try:
        planned = check_whole(checkpoint)
        unlike = _unbegun(checkpoint, topic, landed) if planned is None else _unlike(checkpoint, topic, planned, landed)
    except (BrokenState, OSError, ValueError, KeyError) as error:
        planned, unlike = None, getattr(error, "what", str(error))
    if unlike:
        aside = checkpoint.with_name(f"{checkpoint.name}.aside")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.rename(aside)
        LOGGER.warning(
            "%s: landing goes on from its table; its checkpoint is put aside to %s: %s", topic, aside, unlike
        )
        return False
    return planned is not None


def _unbegun(checkpoint: Path, topic: str, landed: Mapping[int, int]) -> str:
    """Why a new query over a checkpoint without any plan would not begin behind ``landed``."""
    if newest_batch(checkpoint, "commits") is not None:
        return "its plans are gone"
    if (checkpoint / "sources" / "0" / "0").exists() and not _same(begin := first_offsets(checkpoint, topic), landed):
        return f"it begins at {begin}; the table is landed to {dict(landed)}"
    return ""


def _unlike(checkpoint: Path, topic: str, planned: int, landed: Mapping[int, int]) -> str:
    """Why going on with batch ``planned`` (behind it, when it is done) isn't going on behind ``landed``."""
    plan = batch_plan(checkpoint, planned)
    topics = sorted({name for offsets in plan.offsets for name in offsets})
    if topics != [topic]:
        return f"it counts offsets of {', '.join(topics) or 'nothing'}"
    end = kafka_offsets(plan, topic)
    stands = {"its newest micro-batch ends": end}
    if newest_batch(checkpoint, "commits") != planned:  # it runs again; it is in the table, or it isn't
        before = kafka_offsets(batch_plan(checkpoint, planned - 1), topic) if planned else None
        stands["begins"] = first_offsets(checkpoint, topic) if before is None else before
    if any(_same(offsets, landed) for offsets in stands.values()):
        return ""
    where = ", ".join(f"{what} at {offsets}" for what, offsets in stands.items())
    return f"{where}; the table is landed to {dict(landed)}"


def _same(offsets: Mapping[int, int], landed: Mapping[int, int]) -> bool:
    """Offset 0 of a partition is none: the log has one more partition than it had, or nothing was landed from it."""
    return {p: o for p, o in offsets.items() if o} == {p: o for p, o in landed.items() if o}
