"""Returns memory that the engine of idle streams doesn't need.

A JVM shrinks its heap only when it collects the whole of it. Streams that have caught up with a month of events let it
be, because they need little new memory: for hours the heap would hold what the month needed. So it is collected once
the process has become idle after work, and what native libraries have freed is returned with it.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from anabranch.core.engine.java_options import live_engine
from anabranch.core.engine.tasks import cpu_seconds
from anabranch.core.settings import Settings

EVERY_SECONDS: Final = 60.0
_IDLE_SHARE: Final = 0.1
"""Of a core. Idle streams use a twentieth."""
_WORK_SECONDS: Final = 20.0
"""A collection takes a third of a second, and there are two; idle streams use so much CPU in some minutes."""
HEAP_FREE_IDLE: Final = (10, 20)
"""Percent of its heap that a collection of an idle engine leaves free, at least and at most."""
_CLEANING_SECONDS: Final = 1.0
_HEAP_FREE: Final = ("MinHeapFreeRatio", "MaxHeapFreeRatio")
_FLAGS: Final = "com.sun.management.HotSpotDiagnosticMXBean"
_SERVER: Final = "javax.management.MBeanServerConnection"
log = logging.getLogger(__name__)


def return_when_idle(settings: Settings) -> None:
    """Checks this process and its engine every minute, in a daemon thread. Only on few cores: the collector of other
    engines keeps its heap."""
    if live_engine(settings):
        threading.Thread(target=_run, name="idle-memory", daemon=True).start()


@dataclass
class IdleMemory:
    """``used``: CPU seconds so far. ``collect`` is called when they hardly grow any more after work."""

    used: Callable[[], float]
    collect: Callable[[], None]
    _last: float = 0.0
    _collected: float = 0.0

    def look(self, passed: float) -> None:
        """``passed``: seconds since the last look."""
        used, before = self.used(), self._last
        self._last, self._collected = used, min(self._collected, used)  # it falls when Python workers end
        if used - before < _IDLE_SHARE * passed and used - self._collected > _WORK_SECONDS:
            self.collect()
            self._collected = self._last = self.used()


def _run() -> None:
    memory, never = IdleMemory(cpu_seconds, _collect), threading.Event()
    while not never.wait(EVERY_SECONDS):
        try:
            memory.look(EVERY_SECONDS)
        except Exception as error:  # an engine that has ended is reported by who needs it
            log.debug("memory isn't returned: %s", error)


def _collect() -> None:
    import pyarrow
    from pyspark import SparkContext

    gc.collect()  # Python's proxies of the engine's objects are in cycles, and hold what these hold
    if (gateway := SparkContext._gateway) is not None:
        collect_engine(gateway.jvm)
        trim_engine(gateway.jvm)
    pyarrow.default_memory_pool().release_unused()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc's
        trim(0)


def collect_engine(jvm: Any) -> None:
    """Collects the heap, twice, and leaves little of it free. Work after it may have more again: the serial collector
    collects all of the heap each time that what survives needs more room than is free."""
    management = jvm.java.lang.management.ManagementFactory
    jvm.System.gc()
    time.sleep(_CLEANING_SECONDS)  # Spark's cleaner lets go of what belonged to what is gone
    try:
        flags = management.getPlatformMXBean(jvm.Class.forName(_FLAGS))
        before = [_call(jvm, _FLAGS, flags, "getVMOption", name).getValue() for name in _HEAP_FREE]
    except Exception as error:  # another kind of JVM
        log.debug("the engine keeps its share of free heap: %s", error)
        jvm.System.gc()
        return
    least, most = _HEAP_FREE
    try:  # in this order: the least is never above the most
        _call(jvm, _FLAGS, flags, "setVMOption", least, str(HEAP_FREE_IDLE[0]))
        _call(jvm, _FLAGS, flags, "setVMOption", most, str(HEAP_FREE_IDLE[1]))
        jvm.System.gc()
    finally:
        _call(jvm, _FLAGS, flags, "setVMOption", most, before[1])
        _call(jvm, _FLAGS, flags, "setVMOption", least, before[0])


def trim_engine(jvm: Any) -> None:
    """Has the JVM return what its native libraries have freed; JVMs before 17.0.6, and those without glibc, can't."""
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    commands = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    try:
        _call(jvm, _SERVER, server, "invoke", commands, "systemTrimNativeHeap", None, None)
    except Exception as error:
        log.debug("the engine's native memory isn't returned: %s", error)


def _call(jvm: Any, interface: str, target: Any, name: str, *given: Any) -> Any:
    """Calls the method of this name that the interface has. By reflection: these objects' own classes are in packages
    that aren't exported, where py4j finds no method."""
    method = next(each for each in jvm.Class.forName(interface).getMethods() if each.getName() == name)
    values = jvm.java.lang.reflect.Array.newInstance(jvm.Class.forName("java.lang.Object"), len(given))
    for i, value in enumerate(given):
        values[i] = value
    return method.invoke(target, values)
