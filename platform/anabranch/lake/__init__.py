"""Delta tables: where they are, how data files get into them, and what each commit covers.

In: rows from Spark or Arrow. Out: tables whose every commit carries its writer, batch and cut. The steps of a write:

1. ``layout`` and ``table_refs`` give the paths, ``cut`` the position of the log that a commit covers;
2. ``staging`` writes data files below the table's folder, with ``statistics``;
3. ``writer_fencing`` checks that no newer process has taken over; ``optimistic`` repeats a decision after a conflict;
4. ``commits`` adds the files in one delta-rs commit (``file_commits``: compactions and large merges), repeated after
   compactions by ``rewrite_commits``, checked by ``commit_outcome`` after an error, with a ``version_checksum``;
5. ``commit_metadata`` and ``commit_log`` read commits back, ``frames`` the rows; ``commit_errors`` has the errors.

``archived_commits`` keeps the log short for readers, ``stream_checkpoint`` reads Spark's checkpoints.
"""

from anabranch.lake.commits import (
    Commit,
    CommitMetadata,
    append,
    commit_history,
    configure,
    create,
    latest_commit,
    latest_verified_commit,
    replace,
    upsert,
    widen,
)
from anabranch.lake.cut import Cut, Position
from anabranch.lake.staging import StagedFile, restage, stage_arrow, stage_frame

__all__ = [
    "Commit",
    "CommitMetadata",
    "Cut",
    "Position",
    "StagedFile",
    "append",
    "commit_history",
    "configure",
    "create",
    "latest_commit",
    "latest_verified_commit",
    "replace",
    "restage",
    "stage_arrow",
    "stage_frame",
    "upsert",
    "widen",
]
