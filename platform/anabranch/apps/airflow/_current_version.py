"""Which version of a view readers have, and which are retired, read from the lake's files without opening a table.

A DAG file is parsed every few seconds, and opening Delta tables would import their library each time. The route is the
one that every read follows (``serve.routes``): the newest commit of the view's routes says it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from anabranch.apps.airflow.static_views import Declared, newest_first
from anabranch.core.settings import Settings

log = logging.getLogger(__name__)


def not_retired(settings: Settings, versions: Iterable[Declared]) -> list[Declared]:
    """Returns the declared versions that can be read, newest first; ``current`` is true for what most readers have."""
    declared = list(versions)
    route = _route(settings, declared[0].name)
    retired = set(route.get("retired", ()))
    left = newest_first(view for view in declared if view.version not in retired)
    current = _current(settings, declared[0].name, route, [view.version for view in left])
    return [replace(view, current=view.version == current) for view in left]


def _current(settings: Settings, view: str, route: dict[str, Any], declared: Collection[int]) -> int | None:
    """The declared version with the most readers; without a route the oldest one that has a table."""
    shares = {int(version): share for version, share in route.get("shares", {}).items() if int(version) in declared}
    if any(shares.values()):
        return max(sorted(shares), key=lambda version: shares[version])
    folder = settings.lake / "views" / view
    with_table = [version for version in declared if (folder / f"v{version}" / "speed" / "_delta_log").is_dir()]
    return min(with_table or declared, default=None)


def _route(settings: Settings, view: str) -> dict[str, Any]:
    """The notes of the newest commit that set the view's route; empty if there is none, or none can be read.

    One that can't be read takes no DAG away: the route before it stands for it, so that what was retired stays so.
    That is safe for what it doesn't say: the plan of each run reads the route itself, and refuses if it can't, or if
    the version is retired (``change.reprocess_plan``, and those of certifications and replays).
    """
    try:
        paths = sorted((settings.lake / "routes" / view / "_delta_log").glob("[0-9]*.json"), reverse=True)
    except OSError as error:
        log.warning("the route of %s can't be read: %s", view, error)
        return {}
    for path in paths:
        try:
            found = _note(path)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            log.warning("the route of %s can't be read: %s", view, error)
            continue
        if "shares" in found:
            return found
    return {}


def _note(path: Path) -> dict[str, Any]:
    for line in path.read_text().splitlines():
        text = json.loads(line).get("commitInfo", {}).get("userMetadata")
        if text:
            return dict(json.loads(text))
    return {}
