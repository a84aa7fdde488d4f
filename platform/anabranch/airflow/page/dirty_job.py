"""The process that loads the views' definitions and says which of their published days are dirty: a line of JSON each.

``python -m anabranch.airflow.page.dirty_job VIEW:VERSION ...``
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from anabranch.airflow.registered import project_views
from anabranch.change.dirty import dirty_partitions
from anabranch.errors import said
from anabranch.settings import Settings, load_settings
from anabranch.views.registry import Registry


def main(asked: Sequence[str]) -> None:
    os.nice(10)  # streams and tasks first
    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # what an author's module prints is no answer
        settings = load_settings()
        registry = project_views(settings)
        for each in asked:
            name, _, version = each.partition(":")
            print(_answer(settings, registry, name, int(version)), file=answers, flush=True)


def _answer(settings: Settings, registry: Registry, name: str, version: int) -> str:
    days, failed = list[tuple[str, int, int, str]](), ""
    try:
        view = registry.get(name, version)
        found = dirty_partitions(settings, view, registry.topic(view))
        days = [(day.partition.isoformat(), day.events, day.late, str(day.at)) for day in found]
    except Exception as error:  # one view that can't be told leaves the others
        failed = said(error)
    return json.dumps({"view": name, "version": version, "days": days, "failed": failed})


if __name__ == "__main__":
    main(sys.argv[1:])
