"""What tests that send flights ask of landing."""

from __future__ import annotations

from anabranch.settings import Settings
from anabranch.tables import newest
from anabranch.tables.layout import landing_table


def landed(settings: Settings) -> int:
    """The records of the topic flights that have landed."""
    committed = newest(landing_table(settings, "flights"))
    if committed is None or not committed.note.cut.positions:
        return 0
    return sum(committed.note.cut.positions["flights"].offsets.values())
