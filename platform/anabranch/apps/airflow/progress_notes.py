"""Shows in a run's note how far its Spark job is, while the job runs. For people only; no program reads it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

NOW: Final = "Now: "
"""Begins the line of a note that says how far the run is."""
_EVERY_SECONDS = 5.0
log = logging.getLogger(__name__)


def progress_note(plan: Mapping[str, Any], progress: str) -> str:
    """The note of a run that works. The plan's first line stays, since people look for it there."""
    return f"{NOW}{progress}\n{_planned(plan)}"


def progress_of(note: str) -> str:
    """The progress that a note says; empty if it says none."""
    first = note.partition("\n")[0]
    return first.removeprefix(NOW) if first.startswith(NOW) else ""


@contextmanager
def noted(
    plan: Mapping[str, Any], progress: Callable[[], str], write: Callable[[str], Any], every: float = _EVERY_SECONDS
) -> Iterator[None]:
    """Write the note every few seconds while the block runs, if there is any progress to tell. Afterwards the note says
    what is planned, until the next step writes it. A failure costs only the note."""
    ended = threading.Event()
    said = ""

    def work() -> None:
        nonlocal said
        while not ended.wait(every):
            try:
                text = progress()
                if text and text != said:
                    write(progress_note(plan, text))
                    said = text
            except Exception as error:  # a note must not end the run's work
                log.warning("the run's progress was not noted: %s", error)

    thread = threading.Thread(target=work, name="anabranch-note", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if said:
            with suppress(Exception):  # nor hide how it ended
                write(_planned(plan))


def _planned(plan: Mapping[str, Any]) -> str:
    return f"Planned: {str(plan.get('text', '')).partition(chr(10))[0]}"
