"""That somebody carries a migration out: the moment of its run's newest look, as the time of one small file.

It is no truth about the migration (its route is): nothing moves or stands by it. The doctor asks it whether anybody
still looks.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from anabranch.core.atomic_files import write_atomically
from anabranch.core.settings import Settings
from anabranch.lake.layout import safe_name

log = logging.getLogger(__name__)


def looked(settings: Settings, view: str, run: str) -> None:
    """``run`` looks at the migration of ``view`` now. Where that can't be written it is only logged."""
    try:
        write_atomically(_file(settings, view), json.dumps({"run": run}))
    except OSError as error:
        log.warning("that run %s looks at the migration of %s was not written: %s", run, view, error)


def newest_look(settings: Settings, view: str, run: str) -> float | None:
    """When ``run`` has looked last (seconds since 1970); None where no look of it is known."""
    path = _file(settings, view)
    try:
        moment, said = path.stat().st_mtime, json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return moment if said["run"] == run else None


def _file(settings: Settings, view: str) -> Path:
    return settings.home / "control" / "migrations" / f"{safe_name(view, 'view')}.json"
