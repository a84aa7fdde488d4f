"""Settings of engines that do small jobs and end soon, as most do that tests start: half of their CPU is else the
compiling of code that runs once."""

from __future__ import annotations

SMALL_JOBS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.default.parallelism": "2",
    # As in the streams that run on and on: most of a job over a handful of rows is else the compiling of its code.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
