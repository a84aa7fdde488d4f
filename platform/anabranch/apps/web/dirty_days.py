"""Which published days are dirty, and how many late events no half holds: looked up beside the server, since that takes
the authors' definitions, and so a process.

A page never waits: it shows what was found last, and from when that is. One process at a time asks for all views that
somebody wants to see; a view is asked for again when something has landed or was published since, and not before it
has rested.
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
from anabranch.operate.runtime.environment import environment

log = logging.getLogger(__name__)
REST_SECONDS = 60.0
"""How long an answer is good, whatever has landed since."""
LIMIT_SECONDS = 180.0
"""How long one process may take for all that it is asked."""
Key = tuple[str, int]
"""A view and its version."""
Wanted = tuple[str, int]
"""What an answer is about: where landing is, and the commit of the batch table that published last (-1: there is no
such table)."""
Found = Mapping[Key, "Looked | str"]
Days = Mapping[date, "Since"]


@dataclass(frozen=True, slots=True)
class Since:
    """Events that landed for a day since it was published ``at`` a cut: all, and the late ones."""

    events: int
    late: int
    at: str


@dataclass(frozen=True, slots=True)
class Looked:
    """The dirty ``days`` of a version; ``late_missing``: how many late events no half of it holds; ``never``: how many
    of those each day has that was never published."""

    days: Days = field(default_factory=dict, hash=False)
    late_missing: int = 0
    never: Mapping[date, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Dirty:
    """What was ``found``, as of ``position`` of landing. ``failed`` says why it couldn't be; ``pending``: it is being
    looked up (again); ``outdated``: something has landed or was published since. ``looked`` is None before the first
    answer."""

    found: Looked = field(default_factory=Looked)
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
    dirty: Dirty
    wanted: Wanted
    at: float


@dataclass
class Lookup:
    """What is known of the views of one home. ``find`` is called by a thread of its own, never twice at once."""

    find: Callable[[Settings, Sequence[Key]], Found] = lambda settings, keys: find_dirty(settings, keys)
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[Any, Key], _Answer] = field(default_factory=dict)
    _queue: dict[tuple[Any, Key], tuple[Settings, Wanted]] = field(default_factory=dict)
    _busy: set[tuple[Any, Key]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def ask(self, settings: Settings, wanted: Mapping[Key, Wanted]) -> dict[Key, Dirty]:
        """What is known now; what isn't, or isn't about what is ``wanted``, is looked up from now on."""
        with self._lock:
            for key, about in wanted.items():
                place, now = (settings.home, key), self.clock()
                known = self._known.get(place)
                good = known is not None and (known.wanted == about or now - known.at < REST_SECONDS)
                if not good and place not in self._busy:
                    self._queue[place] = settings, about
            if self._queue and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="dirty-days", daemon=True)
                self._thread.start()
            return {key: self._told((settings.home, key), about) for key, about in wanted.items()}

    def wait(self, seconds: float) -> None:
        """Until nothing is being looked up, for tests."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _told(self, place: tuple[Any, Key], about: Wanted) -> Dirty:
        known, pending = self._known.get(place), place in self._queue or place in self._busy
        return replace(
            known.dirty if known else Dirty(), pending=pending, outdated=bool(known and known.wanted != about)
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
            except Exception as error:  # whatever it is, the thread goes on: the next page asks again
                log.warning("dirty days can't be looked up", exc_info=error)
                found = {key: root_cause(error) for _, key in batch}
            with self._lock:
                self._busy = set()
                for place, (_, about) in batch.items():
                    self._known[place] = self._answer(found.get(place[1], "no answer"), about)

    def _answer(self, found: Looked | str, about: Wanted) -> _Answer:
        failed, looked = (found, Looked()) if isinstance(found, str) else ("", found)
        return _Answer(Dirty(looked, about[0], datetime.now(UTC), failed), about, self.clock())


def find_dirty(settings: Settings, keys: Sequence[Key]) -> Found:
    """Ask one process for all of them: loading the definitions is most of what it takes. Only what the platform itself
    sets is in its environment, nothing of Airflow's."""
    asked = [f"{view}:{version}" for view, version in keys]
    command = [sys.executable, "-m", "anabranch.apps.web.dirty_job", *asked]
    try:
        done = subprocess.run(
            command, env=environment(settings), cwd=settings.project, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_SECONDS, check=False,
        )  # fmt: skip
        missing = root_cause(Exception(done.stderr.decode(errors="replace"))) if done.returncode else "no answer"
        told = done.stdout
    except subprocess.TimeoutExpired as late:
        told, missing = late.stdout or b"", f"it took longer than {LIMIT_SECONDS:.0f} s"
    found: dict[Key, Looked | str] = dict.fromkeys(keys, missing)
    return found | {key: looked for key, looked in _read(told.decode(errors="replace").splitlines()) if key in found}


def _read(lines: Iterable[str]) -> Iterable[tuple[Key, Looked | str]]:
    for line in lines:
        try:
            said_of = json.loads(line)
            key = str(said_of["view"]), int(said_of["version"])
            days = {date.fromisoformat(day): Since(int(n), int(late), str(at)) for day, n, late, at in said_of["days"]}
            never = {date.fromisoformat(day): int(late) for day, late in said_of["never"]}
            yield key, str(said_of["failed"]) or Looked(days, int(said_of["late_missing"]), never)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # not written by us
