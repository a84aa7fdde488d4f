"""Lead the readers of a view from its version 1 to version 2, or back: what Airflow's task does. May be called again.

    python migrate.py VIEW SHARE

``SHARE`` is how many percent have version 2 in the end; with 100 the migration is done, with 0 it is rolled back.
"""

from __future__ import annotations

import sys
import time

from anabranch.change.migrate import migration
from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.views import View
from anabranch.views.project import Project

BY = {"by": "the bank", "why": "a test"}
BACK = "rolled back"


def main(view: str, share: int) -> int:
    settings, registry = load_settings(), Project(load_settings()).readable_views()
    old, new = registry.get(view, 1), registry.get(view, 2)
    while not _is_at(settings, view, share):
        try:
            if share == 0:
                migration.rollback(settings, view, **BY)
            elif _state(settings, view) in ("", BACK):
                _begin(settings, old, new)
            elif migration.advance(settings, old, new, by=BY["by"]).state == BACK:
                sys.stderr.write(f"a check has failed: {migration.migration_of(settings, view)}\n")
                return 1
        except TryAgain as wait:
            sys.stdout.write(f"{wait.code}\n")
            time.sleep(0.1)
    return 0


def _begin(settings: Settings, old: View, new: View) -> None:
    # Streams are killed meanwhile: they may be far behind.
    migration.start(settings, old, new, steps=(50, 100), soak_seconds=0.5, promise=Expectations(behind=1_000), **BY)


def _is_at(settings: Settings, view: str, share: int) -> bool:
    found, state = migration.migration_of(settings, view), _state(settings, view)
    if share in (0, 100):
        return state == (BACK if share == 0 else "done")
    return found is not None and found[1].share >= share


def _state(settings: Settings, view: str) -> str:
    found = migration.migration_of(settings, view)
    return found[1].state if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
