"""Keeps the Java classes that pyspark names most often.

Whenever Python names one, py4j has Java look for it in each imported package, hence in all 250 JARs: a quarter of the
CPU of the thread that plans small jobs. What is an attribute of py4j's object isn't looked for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By the names that pyspark uses: a short one is a class of an imported package. With the static methods called most.
_CLASSES = {
    "functions": ("col", "lit"),
    "org.apache.spark.SparkThrowableHelper": (),
    "org.apache.spark.sql.functions": ("col", "expr", "lit"),
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin": ("clear", "set"),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession", "setActiveSession"),
    "org.apache.spark.sql.internal.SQLConf": ("get",),
    "org.apache.spark.util.Utils": ("exceptionString",),
    "PythonErrorUtils": (),
    "PythonSQLUtils": ("readArrowStreamFromFile", "toDataFrame"),
    "PythonUtils": ("toSeq",),
}
_PATH = ("py4j", "reflection", "TypeUtil", "isInstanceOf")
"""How py4j names its own test of an error's class."""


def keep_java_classes(spark: SparkSession) -> None:
    """Look each of them up once for the session's JVM. What another version of Spark lacks is left out."""
    from py4j.java_gateway import JavaClass
    from py4j.protocol import Py4JError

    jvm = spark.sparkContext._jvm
    for name, members in _CLASSES.items():
        found = getattr(jvm, name)
        if isinstance(found, JavaClass):  # else py4j takes the name for a package
            _keep(jvm, name, found)
            for member in members:
                with suppress(Py4JError):
                    _keep(found, member, getattr(found, member))
    at: Any = jvm
    for name in _PATH:
        _keep(at, name, getattr(at, name))
        at = getattr(at, name)


def _keep(holder: Any, name: str, value: object) -> None:
    vars(holder)[name] = value
