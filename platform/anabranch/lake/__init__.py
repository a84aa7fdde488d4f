"""Delta tables: where they are, how data files get into them, and what each commit covers.

In: rows from Spark or Arrow. Out: tables whose every commit carries its writer, batch and cut. The steps of a write:

1. ``layout`` gives the paths and lists the tables, ``cut`` is the position of the log that a commit covers, ``landed``
   the one that views catch up with;
2. the package ``files`` stages data files below the table's folder; ``streams`` checks that no newer process writes;
3. ``optimistic`` repeats a decision after a conflict; ``commits`` adds the files in one delta-rs commit
   (``file_commits``: compactions and large merges), with the help of the package ``log``;
4. ``_commit_metadata`` (``latest_commit``, ``commit_history``) reads commits back, ``frames`` the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.lake._commit_metadata import (
        COMMIT_FORMAT,
        Commit,
        CommitMetadata,
        commit_history,
        latest_commit,
        latest_verified_commit,
        open_table,
    )
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_commit_metadata": (
                "COMMIT_FORMAT",
                "Commit",
                "CommitMetadata",
                "commit_history",
                "latest_commit",
                "latest_verified_commit",
                "open_table",
            )
        },
    )

__all__ = [
    "COMMIT_FORMAT",
    "Commit",
    "CommitMetadata",
    "commit_history",
    "commits",
    "cut",
    "file_commits",
    "frames",
    "landed",
    "latest_commit",
    "latest_verified_commit",
    "layout",
    "open_table",
    "optimistic",
]
