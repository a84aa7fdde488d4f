"""Destroys clients of Kafka in threads of their own. That waits for the client's threads, and those wait until a moment
of the machine's clock: where that is set back, whoever held the client last, or collected garbage, would wait too."""

from __future__ import annotations

import atexit
import os
import threading
import time
from queue import SimpleQueue
from typing import Final

_HANDED_OVER, _AT_EXIT = 0.01, 2.0
"""Seconds: until whoever gives a client away has let go of it; how long the process waits for the last ones."""
_NAME: Final = "kafka-client"
_given: Final = SimpleQueue["DestroyedBeside | threading.Event"]()
"""Clients, and events that are set when those before them are being destroyed."""
_processes: Final = set[int]()
"""The ids of those that have a thread for it: one that is forked has none yet."""


class DestroyedBeside:
    """The first base of a client. Python calls ``__del__`` once: the second time, the client is really destroyed."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if os.getpid() not in _processes:
            _processes.add(os.getpid())
            threading.Thread(target=_take, name="kafka-clients", daemon=True).start()

    def __del__(self) -> None:
        _given.put(self)  # no lock, no thread: the collector of garbage may be anywhere


def _take() -> None:
    while True:
        held = [_given.get()]
        if isinstance(held[0], threading.Event):
            held[0].set()
            continue
        time.sleep(_HANDED_OVER)
        try:
            threading.Thread(target=held.clear, name=_NAME, daemon=True).start()
        except RuntimeError:  # Python starts no more threads at its end
            held.clear()


@atexit.register
def _wait() -> None:
    """A process that ends in the midst of it might crash in its last clean-up."""
    if os.getpid() not in _processes:
        return
    until, taken = time.monotonic() + _AT_EXIT, threading.Event()
    _given.put(taken)
    taken.wait(_AT_EXIT)
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(max(0.0, until - time.monotonic()))
