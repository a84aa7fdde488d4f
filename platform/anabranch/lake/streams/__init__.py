"""What a stream has apart from its table: Spark's checkpoint, and the fence that keeps an older process from writing.

In: the folder of a checkpoint, or the name of a writer. Out: what a micro-batch has read; a ``WriterFence``. At start
``writer_fencing`` takes the fence and every commit checks it again; ``stream_checkpoint`` reads what Spark has planned
and finished, so that a writer knows which batch Spark repeats; ``batch_failures`` says where one is that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["batch_failures", "stream_checkpoint", "writer_fencing"]
