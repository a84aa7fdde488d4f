"""Detect that the project now declares other views than this process runs, for example a newly deployed version.

The declarations are loaded in a child process, so a half-edited file can't stop a running stream.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from anabranch.contracts import load_declarations
from anabranch.views.registry import readable_views

_TIMEOUT = 60.0
"""Seconds that loading the declarations may take."""
_MAX_ERROR_LENGTH = 2_000
"""Characters of an error that are logged."""
log = logging.getLogger(__name__)

Signature = tuple[tuple[str, int, int], ...]


class DefinitionWatcher:
    """Watches the files below ``project/spark_jobs``, for all views or ``only`` those names. Create it before the views
    are loaded, so that no change is missed."""

    def __init__(self, project: Path, only: Collection[str] = ()) -> None:
        self._jobs, self._only = project / "spark_jobs", only
        self._loaded = self._signature()
        self._last = self._loading = self._loaded
        self._child: subprocess.Popen[str] | None = None
        self._started = 0.0

    def poll(self, running: Collection[str]) -> bool:
        """Whether the declared views (by writer) differ from those ``running``. Costs a stat of some files. While a
        file can't be loaded, views that are missing from the declarations don't count: that file may declare them."""
        if self._child is None:
            self._load_when_settled()
            return False
        if self._child.poll() is None:
            if time.monotonic() - self._started > _TIMEOUT:
                log.error("loading the declarations timed out after %.0f s; it is tried again", _TIMEOUT)
                self.stop()
            return False
        output, errors = self._child.communicate()
        code, self._child, self._loaded = self._child.returncode, None, self._loading
        if code:
            tail = errors.strip()[-_MAX_ERROR_LENGTH:]
            log.error("the declarations can't be loaded; the streams keep running unchanged:\n%s", tail)
            return False
        found = json.loads(output)
        for path, error in found["unread"].items():
            log.error("%s can't be loaded; its streams keep running unchanged: %s", path, error)
        new = {*found["writers"]} - {*running}
        gone = set() if found["unread"] else {*running} - {*found["writers"]}
        for what, writers in (("new", new), ("removed", gone)):
            if writers:
                log.warning("%s views in the declarations: %s", what, ", ".join(sorted(writers)))
        return bool(new or gone)

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _load_when_settled(self) -> None:
        """Starts the child when two consecutive polls see the same files: before that they are still being written."""
        now, before = self._signature(), self._last
        self._last = now
        if now == self._loaded or now != before:
            return
        self._loading, self._started = now, time.monotonic()
        command = [sys.executable, "-m", __name__, str(self._jobs), *self._only]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _signature(self) -> Signature:
        found = [path for folder in ("views", "contracts") for path in sorted((self._jobs / folder).glob("[a-z]*.*"))]
        stats = ((str(path), _stat(path)) for path in found)
        return tuple((path, each.st_mtime_ns, each.st_size) for path, each in stats if each is not None)


def _stat(path: Path) -> os.stat_result | None:
    """None unless it is a file; one may be deleted at any moment."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def main() -> None:
    """The child process: prints the writers of all declared views (or of those named), and the files that can't be
    loaded, as JSON."""
    jobs, only = Path(sys.argv[1]), sys.argv[2:]
    registry = readable_views(jobs / "views", load_declarations(jobs / "contracts"))
    writers = sorted(view.writer for view in registry if not only or view.name in only)
    unread = {path: f"{type(error).__name__}: {error}" for path, error in registry.unread.items()}
    sys.stdout.write(json.dumps({"writers": writers, "unread": unread}))


if __name__ == "__main__":
    main()
