"""Looks up dirty days and late events in no half, in a child process, because that runs the authors' definitions.

A page never waits: it shows the last result and its time. One process at a time looks up all requested views. A view is
looked up again if something has landed or was published since, or if its lookup failed, at most once per REST_SECONDS.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

from anabranch.core.errors import root_cause
from anabranch.core.settings import Settings
from anabranch.operate.runtime.environment import DIRTY_DAYS, part_environment

log = logging.getLogger(__name__)
REST_SECONDS = 60.0
"""How long a result is used, whatever has landed since."""
LIMIT_SECONDS = 180.0
"""Timeout of one process, for all its views."""
Key = tuple[str, int]
"""A view and its version."""
Reference = tuple[str, int]
"""The state that a result refers to: landing's position, and the version of the batch table (-1: there is none)."""
Found = Mapping[Key, "LookupResult | str"]
Days = Mapping[date, "NewEvents"]


@dataclass(frozen=True, slots=True)
class NewEvents:
    """The events that landed for a day since it was published ``at`` a cut: all, and the late ones."""

    events: int
    late: int
    at: str


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The dirty ``days`` of a version. ``late_missing``: number of late events in neither half. ``never``: how many of
    these each never-published day has."""

    days: Days = field(default_factory=dict, hash=False)
    late_missing: int = 0
    never: Mapping[date, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class DirtyStatus:
    """The result ``found`` at ``position`` of landing. ``failed``: why the lookup failed. ``pending``: a lookup is
    running or queued. ``outdated``: something has landed or was published since. ``looked``: time of the last result,
    None before the first."""

    found: LookupResult = field(default_factory=LookupResult)
    position: str = ""
    looked: datetime | None = None
    failed: str = ""
    pending: bool = False
    outdated: bool = False

    @property
    def days(self) -> Days:
        return self.found.days


@dataclass(frozen=True, slots=True)
class _Answer:
    dirty: DirtyStatus
    wanted: Reference
    at: float

    def is_good_for(self, wanted: Reference, now: float) -> bool:
        """A result is, until something lands or is published; a failure says nothing of what was asked."""
        return now - self.at < REST_SECONDS or (self.wanted == wanted and not self.dirty.failed)


@dataclass
class Lookup:
    """Caches the results per home and view. ``find`` is called in a separate thread, never twice at the same time."""

    find: Callable[[Settings, Sequence[Key]], Found] = lambda settings, keys: find_dirty(settings, keys)
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[Any, Key], _Answer] = field(default_factory=dict)
    _queue: dict[tuple[Any, Key], tuple[Settings, Reference]] = field(default_factory=dict)
    _busy: set[tuple[Any, Key]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def ask(self, settings: Settings, wanted: Mapping[Key, Reference]) -> dict[Key, DirtyStatus]:
        """Returns the cached results, and queues a lookup of those that are missing or don't refer to ``wanted``."""
        with self._lock:
            for key, wanted_state in wanted.items():
                place, now = (settings.home, key), self.clock()
                known = self._known.get(place)
                good = known is not None and known.is_good_for(wanted_state, now)
                if not good and place not in self._busy:
                    self._queue[place] = settings, wanted_state
            if self._queue and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="dirty-days", daemon=True)
                self._thread.start()
            return {key: self._result((settings.home, key), wanted_state) for key, wanted_state in wanted.items()}

    def wait(self, seconds: float) -> None:
        """Waits until no lookup is running. For tests."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _result(self, place: tuple[Any, Key], wanted_state: Reference) -> DirtyStatus:
        known, pending = self._known.get(place), place in self._queue or place in self._busy
        return replace(
            known.dirty if known else DirtyStatus(),
            pending=pending,
            outdated=bool(known and known.wanted != wanted_state),
        )

    def _work(self) -> None:
        while True:
            with self._lock:
                home = next((place[0] for place in self._queue), None)
                batch = {place: asked for place, asked in self._queue.items() if place[0] == home}
                if not batch:
                    self._thread = None
                    return
                self._queue = {place: asked for place, asked in self._queue.items() if place[0] != home}
                self._busy = set(batch)
            settings = next(iter(batch.values()))[0]
            try:
                found = self.find(settings, [key for _, key in batch])
            except Exception as error:  # the thread must continue: the next page asks again
                log.warning("dirty days can't be looked up", exc_info=error)
                found = {key: root_cause(error) for _, key in batch}
            with self._lock:
                self._busy = set()
                for place, (_, wanted_state) in batch.items():
                    self._known[place] = self._answer(found.get(place[1], "no answer"), wanted_state)

    def _answer(self, found: LookupResult | str, wanted_state: Reference) -> _Answer:
        failed, looked = (found, LookupResult()) if isinstance(found, str) else ("", found)
        return _Answer(DirtyStatus(looked, wanted_state[0], datetime.now(UTC), failed), wanted_state, self.clock())


def find_dirty(settings: Settings, keys: Sequence[Key]) -> Found:
    """Looks up all keys in one process, because loading the definitions takes most of its time. The process gets only
    what it needs of the environment, nothing of Airflow's and no login."""
    asked = [f"{view}:{version}" for view, version in keys]
    command = [sys.executable, "-m", "anabranch.apps.web._dirty_job", *asked]
    try:
        done = subprocess.run(
            command, env=part_environment(settings, DIRTY_DAYS), cwd=settings.project, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=LIMIT_SECONDS, check=False,
        )  # fmt: skip
        missing = root_cause(Exception(done.stderr.decode(errors="replace"))) if done.returncode else "no answer"
        output = done.stdout
    except subprocess.TimeoutExpired as late:
        output, missing = late.stdout or b"", f"it took longer than {LIMIT_SECONDS:.0f} s"
    found: dict[Key, LookupResult | str] = dict.fromkeys(keys, missing)
    return found | {key: looked for key, looked in _read(output.decode(errors="replace").splitlines()) if key in found}


def _read(lines: Iterable[str]) -> Iterable[tuple[Key, LookupResult | str]]:
    for line in lines:
        try:
            answer = json.loads(line)
            key = str(answer["view"]), int(answer["version"])
            days = {
                date.fromisoformat(day): NewEvents(int(n), int(late), str(at)) for day, n, late, at in answer["days"]
            }
            never = {date.fromisoformat(day): int(late) for day, late in answer["never"]}
            yield key, str(answer["failed"]) or LookupResult(days, int(answer["late_missing"]), never)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # not a line of ours
