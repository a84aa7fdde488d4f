"""What the DAG files of a project are made from, apart from themselves: to notice that they must be parsed again."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.core.project_folder import view_files
from anabranch.core.settings import Settings


def sources(settings: Settings) -> Iterator[tuple[str, int, int]]:
    """Yields what DAGs depend on apart from their own files (``static_views``, ``_current_version``): the files of
    views, the routes, and which versions have a table. Each with its time of change (ns) and size, where they count."""
    logs = settings.lake.glob("routes/*/_delta_log")
    for path in (*view_files(settings.views_folder), *sorted(logs)):
        try:
            state = path.stat()
        except FileNotFoundError:  # deleted just now
            continue
        yield str(path), state.st_mtime_ns, state.st_size
    for table in sorted(settings.lake.glob("views/*/v*/speed/_delta_log")):
        yield str(table), 0, 0
