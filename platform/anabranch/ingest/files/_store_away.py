"""Waits for a store that is away, with longer and longer pauses. It says so, and ``anabranch status`` shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, TypeVar

from anabranch.core import part_report
from anabranch.core.atomic_files import locked
from anabranch.core.errors import TryAgain
from anabranch.core.part_report import Source
from anabranch.core.settings import Settings
from anabranch.core.text.quantities import duration
from anabranch.lake.layout import store_away_lock, store_away_locks

T = TypeVar("T")
STORE_WAIT: Final = 3_600.0
"""Seconds from the first failed call on: for that long a store is waited for."""
_FIRST, _LONGEST = 1.0, 60.0
"""Seconds between two calls."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Of a load into ``topic``. ``say`` is called with a line before each pause, and when the store is there again."""

    settings: Settings
    topic: str
    say: Callable[[str], None]
    limit: float = STORE_WAIT


def until_there(call: Callable[[], T], patience: Patience | None) -> T:
    """The result of ``call``, which is made again while it raises STORE_UNREACHABLE because the store is away, for as
    long as ``patience`` says. Any other error is raised at once; without patience, each one."""
    if patience is None:
        return call()
    began, pause = time.monotonic(), _FIRST
    with ExitStack() as shown:
        is_shown = waited = False
        while True:
            try:
                found = call()
            except TryAgain as error:
                if not error.fields.get("away"):
                    raise
                began, waited = began if waited else time.monotonic(), True
                left = began + patience.limit - time.monotonic()
                if left <= 0:
                    error.what = f"{error.what}; it was waited for, for {duration(patience.limit)}"
                    raise
                is_shown = is_shown or _may_show(patience, shown)
                pause = _pause(patience, error.what, pause, left, show=is_shown)
            else:
                if waited:
                    patience.say("the store is there again")
                return found


def waiting_loads(settings: Settings) -> dict[str, str]:
    """Why a load waits now, by its topic. Several that wait for one topic are shown as one. Never raises."""
    found = {}
    for topic, lock in store_away_locks(settings).items():
        try:
            with locked(lock, shared=True):
                pass
        except BlockingIOError:
            report = part_report.read(settings, _part(topic))
            found[topic] = report.sources[topic].waits_for if report and topic in report.sources else "a store is away"
        except OSError:
            continue
    return found


def _pause(patience: Patience, why: str, pause: float, left: float, *, show: bool) -> float:
    """Say why, and wait. The next pause."""
    if show:
        part_report.write(patience.settings, _part(patience.topic), {patience.topic: Source(why)})
    now = min(pause, left)
    patience.say(f"waits: {why}; it tries again in {duration(now)}, and for {duration(left)} at most")
    time.sleep(now)
    return min(pause * 2, _LONGEST)


def _may_show(patience: Patience, shown: ExitStack) -> bool:
    """Hold the lock that says that the report counts; False while another load into the topic does."""
    try:
        shown.enter_context(locked(store_away_lock(patience.settings, patience.topic)))
    except BlockingIOError:
        return False
    return True


def _part(topic: str) -> str:
    return f"load-{topic}"
