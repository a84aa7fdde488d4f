"""Notices that the project declares other views by now than this process runs: a next version, deployed beside it.

The declarations are read in a process of their own: a file that its author is in the middle of takes no stream down.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from anabranch.contracts import load_declarations
from anabranch.views.registry import readable_views

_PATIENCE = 60.0
"""Seconds that the declarations may take to be read."""
_TOLD = 2_000
"""Characters of an error that are told."""
log = logging.getLogger(__name__)

Signature = tuple[tuple[str, int, int], ...]


class DefinitionWatcher:
    """Looks at the files below ``project/spark_jobs``, for all views or ``only`` those names. Made before they are
    read, so that no change is missed."""

    def __init__(self, project: Path, only: Collection[str] = ()) -> None:
        self._jobs, self._only = project / "spark_jobs", only
        self._known = self._now()
        self._last = self._known
        self._child: subprocess.Popen[str] | None = None
        self._since = 0.0

    def look(self, running: Collection[str]) -> bool:
        """Whether the writers of the views that are declared aren't those ``running``. Costs a look at some files.
        While a file can't be read nobody knows what isn't declared any more."""
        if self._child is None:
            self._ask_when_settled()
            return False
        if self._child.poll() is None:
            if time.monotonic() - self._since > _PATIENCE:
                self._child.kill()
            return False
        said, errors = self._child.communicate()
        code, self._child = self._child.returncode, None
        if code:
            log.error("the declarations can't be read; the streams go on as they are:\n%s", errors.strip()[-_TOLD:])
            return False
        found = json.loads(said)
        for path, error in found["unread"].items():
            log.error("%s can't be read; its streams go on as they are: %s", path, error)
        new = {*found["writers"]} - {*running}
        gone = set() if found["unread"] else {*running} - {*found["writers"]}
        for what, writers in (("new", new), ("gone", gone)):
            if writers:
                log.warning("%s among the declared views: %s", what, ", ".join(sorted(writers)))
        return bool(new or gone)

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _ask_when_settled(self) -> None:
        """Files that are just being written look different at each look: they are asked for when two looks agree."""
        now, before = self._now(), self._last
        self._last = now
        if now == self._known or now != before:
            return
        self._known, self._since = now, time.monotonic()
        command = [sys.executable, "-m", __name__, str(self._jobs), *self._only]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _now(self) -> Signature:
        found = [path for folder in ("views", "contracts") for path in sorted((self._jobs / folder).glob("[a-z]*.*"))]
        stats = ((str(path), path.stat()) for path in found if path.is_file())
        return tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats)


def main() -> None:
    """The writers of all declared views, or of those named, and the files that can't be read, as JSON."""
    jobs, only = Path(sys.argv[1]), sys.argv[2:]
    registry = readable_views(jobs / "views", load_declarations(jobs / "contracts"))
    writers = sorted(view.writer for view in registry if not only or view.name in only)
    unread = {path: f"{type(error).__name__}: {error}" for path, error in registry.unread.items()}
    sys.stdout.write(json.dumps({"writers": writers, "unread": unread}))


if __name__ == "__main__":
    main()
