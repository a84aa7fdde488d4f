"""Child process of `_dirty_days`: loads the views' definitions and prints a line of JSON per view, with its dirty days
and the number of late events in no half.

``python -m anabranch.apps.web._dirty_job VIEW:VERSION ...``
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.core.settings import Settings
    from anabranch.views import Registry


def main(asked: Sequence[str]) -> None:
    os.nice(10)  # pages, streams and tasks have priority, also over the imports, which take most of a short lookup
    from anabranch.core.settings import load_settings
    from anabranch.views.project import Project

    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # an author's module may print, too
        settings = load_settings()
        registry = Project(settings).readable_views()
        for each in asked:
            name, _, version = each.partition(":")
            print(_answer(settings, registry, name, int(version)), file=answers, flush=True)


def _answer(settings: Settings, registry: Registry, name: str, version: int) -> str:
    from anabranch.change.dirty_partitions import dirty_partitions
    from anabranch.compute.batch.missing_days import missing_now
    from anabranch.core.errors import root_cause

    days, never, late, failed = list[tuple[str, int, int, str]](), list[tuple[str, int]](), 0, ""
    try:
        view = registry.handle(settings, registry.get(name, version))
        found = dirty_partitions(view)
        days = [(day.partition.isoformat(), day.events, day.late, str(day.at)) for day in found]
        lacking = missing_now(view)
        never, late = [(day.isoformat(), count) for day, count in lacking.never_published.items()], lacking.late
    except Exception as error:  # the other views are still answered
        failed = root_cause(error)
    told = {"view": name, "version": version, "days": days, "late_missing": late, "never": never, "failed": failed}
    return json.dumps(told)


if __name__ == "__main__":
    main(sys.argv[1:])
