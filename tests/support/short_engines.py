"""Settings of engines that do small jobs and end soon, as most do that tests start: half of their CPU is else the
compiling of code that runs once."""

from __future__ import annotations

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""For ``SPARK_SUBMIT_OPTS``, Spark's own variable for options of the JVM: without its second compiler, which pays off
later. Without that one the JVM reserves a fifth of the space for compiled code (48 MB): an engine that lives longer
would fill it, and compile the same code again and again."""
SMALL_JOBS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.default.parallelism": "2",
    # As in the streams that run on and on: most of a job over a handful of rows is else the compiling of its code.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
