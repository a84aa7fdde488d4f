"""Delta's transaction log, one level below delta-rs.

In: a table's folder. Out: what a commit has changed, and commits that can be trusted after an error.

``delta_tables`` opens tables. ``commit_log`` reads commits from their files, or from those that ``archived_commits``
has moved out of the readers' way. During a commit: ``commit_errors`` translates errors, ``commit_outcome`` finds out
whether the commit was written all the same, ``rewrite_commits`` repeats it after a compaction, ``version_checksum``
writes the checksum of the new version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "archived_commits",
    "commit_errors",
    "commit_log",
    "commit_outcome",
    "delta_tables",
    "rewrite_commits",
    "version_checksum",
]
