"""Options of an engine's JVM: its stack, compiler, collector, limits and archive of classes."""

from __future__ import annotations

import os
from pathlib import Path

from anabranch.core.settings import Settings

_FEW_CORES = 2
# With a smaller stack an error in a Python foreachBatch ends in a StackOverflowError that hides it.
_STACK = "-Xss8m"
COMPILER = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
"""JVM options for few cores. The planner has many warm methods, which keep the optimizing compiler busy for minutes: on
2 cores it took half of the CPU of a stream. With 20 times the usual thresholds it compiles only the inner loops, which
reach them quickly. A broker starts with two thirds of the CPU, and its first minutes take half."""
_COLLECTOR = "-XX:+UseParallelGC"
# A JVM without the thread that was denied memory would hang. Exit code 3: see ``core.engine.lifetime``.
_MEMORY = "-XX:+ExitOnOutOfMemoryError"
# A record of a few bytes can name a text of 2 GB, and Avro's decoder asks for the memory first. What is longer is left
# to landing's other decoder.
AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in {"bytes": 32 << 20, "string": 32 << 20, "collectionItems": 4 << 20}.items()
)
JAVA_OPTIONS = f"{_STACK} {COMPILER} {_COLLECTOR} {_MEMORY} {AVRO_LIMITS} -Dlog4j2.formatMsgNoLookups=true"
_LOG = Path(__file__).with_name("log4j2.properties")
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""JVM options for engines that end soon: without the optimizing compiler, whose work pays off after about a minute of
CPU. A day's rebuild takes 16.0 instead of 18.6 s, and 20 instead of 26 CPU seconds. By itself the JVM then reserves a
fifth of the space for compiled code (48 MB); an engine that lives longer fills that, and compiles the same code again
and again."""
HEAP_FREE_AT_WORK = (50, 75)
"""Percent of its heap that a live engine has free after a collection of the whole of it, at least and at most. The
serial collector does that each time that what survives needs more room: with 20 and 40 percent five times as often."""
# After a burst the parallel collector keeps 600 MB for new objects that an idle stream doesn't need; this one releases
# them at a full collection (``idle_memory``), and is as fast on two cores. By itself the JVM begins with a 64th of the
# machine's memory, and never has less.
_SMALL_COLLECTOR = (
    f"-XX:+UseSerialGC -XX:MinHeapFreeRatio={HEAP_FREE_AT_WORK[0]} -XX:MaxHeapFreeRatio={HEAP_FREE_AT_WORK[1]} "
    "-XX:-ShrinkHeapInSteps -Xms128m -XX:NewSize=80m"
)
# Spark remembers the last thousand jobs, stages and queries, with the text of each plan, for its own pages.
_SHORT_MEMORY = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
}


def class_archive(settings: Settings) -> Path:
    """The JVM's class data archive for the engine; ``operate.setup`` writes it."""
    return settings.jars / "engine.jsa"


def java_options(settings: Settings) -> str:
    """JVM options of every engine. The JVM silently ignores an archive made by another JVM or class path."""
    archived = (f'"{option}"' for option in archive_options(class_archive(settings)))
    return " ".join([JAVA_OPTIONS, f'"-Dlog4j2.configurationFile={_LOG}"', *archived])


def short_engine(settings: Settings) -> dict[str, str]:
    """Settings for an engine that does small jobs and ends."""
    return {"spark.driver.defaultJavaOptions": f"{java_options(settings)} {SHORT_LIVED}"}


def archive_options(archive: Path) -> tuple[str, ...]:
    """JVM options to use a class data archive; none if it doesn't exist. Mapped where it was made for: a JVM else puts
    it at a random address, and so writes most of its 200 MB again, for itself alone."""
    where = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
    quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return (f"-XX:SharedArchiveFile={archive}", *where, *quiet) if archive.exists() else ()


def live_engine(settings: Settings) -> dict[str, str]:
    """Settings for engines of long-running streams on few cores, where they share cores and memory with all other
    processes."""
    if (os.cpu_count() or 1) > _FEW_CORES:
        return {}
    options = java_options(settings).replace(_COLLECTOR, _SMALL_COLLECTOR)
    return {"spark.driver.defaultJavaOptions": options, **_SHORT_MEMORY}
