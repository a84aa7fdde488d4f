"""Tables: where they are, what a cut is, and the one way in which anything is committed."""

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
