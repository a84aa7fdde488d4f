"""Tables: where they are, what a cut is, and the one way in which anything is committed."""

from anabranch.tables.commits import (
    Committed,
    Note,
    append,
    configure,
    covering,
    create,
    newest,
    notes,
    replace,
    upsert,
    widen,
)
from anabranch.tables.cut import Cut, Position
from anabranch.tables.staging import StagedFile, restage, stage_arrow, stage_frame

__all__ = [
    "Committed",
    "Cut",
    "Note",
    "Position",
    "StagedFile",
    "append",
    "configure",
    "covering",
    "create",
    "newest",
    "notes",
    "replace",
    "restage",
    "stage_arrow",
    "stage_frame",
    "upsert",
    "widen",
]
