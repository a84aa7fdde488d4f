"""Spark engines: the session, and how a process notices that its engine has died, hangs or lost its owner.

In: settings. Out: a ``SparkSession``, or a clear error. Importing this package loads no pyspark.

1. ``spark`` creates the session, with the JVM's ``java_options``, Spark settings that ``_settings_check`` has checked,
   and Java classes kept by ``_java_classes``;
2. ``call_sites`` has Spark record the lines of an author's function;
3. ``lifetime`` holds an engine for the duration of a block, and explains its end (memory, a signal);
4. ``liveness`` detects streams that hang, by the signs of progress that ``tasks`` reads; ``idle_memory`` returns what
   idle ones don't need;
5. ``die_with_parent`` ends an engine whose Airflow task has died, ``job_error`` passes a job's error to that task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "call_sites",
    "die_with_parent",
    "idle_memory",
    "java_options",
    "job_error",
    "lifetime",
    "liveness",
    "spark",
    "tasks",
]
