"""What the figures were measured on."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path
from platform import machine, python_version, release, system

import psutil
from anabranch.core.settings import Settings

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "confluent-kafka", "great-expectations")


def description(settings: Settings) -> list[str]:
    """Lines of Markdown: the machine, the engine's settings, the versions."""
    memory = psutil.virtual_memory().total / 2**30
    jars = {match[1]: match[2] for jar in settings.jars.rglob("*.jar") if (match := _NAME.match(jar.name))}
    versions = {"Python": python_version(), "Java": _java(), **{name: version(name) for name in _PACKAGES}}
    versions |= {"Kafka broker": jars.get("kafka_2.13", "?"), "delta-spark JAR": jars.get("delta-spark_4.2_2.13", "?")}
    return [
        f"- machine: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {system()} {release()} {machine()}",
        f"- engine: `{settings.spark_master}`, driver memory {settings.spark_driver_memory}; a pair shares its session",
        f"- versions: {', '.join(f'{name} {number}' for name, number in versions.items())}",
    ]


_NAME = re.compile(r"(?:.*_)?(kafka_2\.13|delta-spark_4\.2_2\.13)-([0-9.]+)\.jar$")


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "unknown processor"


def _java() -> str:
    import subprocess

    from anabranch.operate.runtime.kafka_server import java

    told = subprocess.run([java(), "-version"], capture_output=True, text=True, timeout=30).stderr
    found = re.search(r'"([^"]+)"', told)
    return found[1] if found else "?"
