"""Find the commit of an epoch in a landing table's log."""

from __future__ import annotations

from deltalake import DeltaTable

from anabranch.lake import commit_history


def last_version(table: DeltaTable, topic: str, epoch: int) -> int:
    """The last version whose commit covers no epoch after ``epoch``: searched from where it is if each commit since was
    an epoch, in steps that double, and then by halves. Older commits than the kept ones count as epoch 0."""

    def epoch_at(version: int) -> int:
        found = next(commit_history(table, newest=version), None)
        return found.note.cut.epoch(topic) if found is not None else 0

    after = table.version() + 1
    low = after - 1 - max(0, epoch_at(after - 1) - epoch)
    step = 1
    while low >= 0 and epoch_at(low) > epoch:
        after, low, step = low, low - step, 2 * step
    low = max(low, -1)
    while after - low > 1:
        middle = (low + after) // 2
        low, after = (low, middle) if epoch_at(middle) > epoch else (middle, after)
    return low
