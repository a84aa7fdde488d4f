"""What the figures were measured on."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from platform import machine, python_version, release, system
from statistics import median

import psutil
from anabranch.core.settings import Settings

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "confluent-kafka", "great-expectations")


def hardware() -> str:
    """Processor, cores and memory, and the system on them."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {system()} {release()} {machine()}"


def software(settings: Settings) -> str:
    """The engine's settings, and the versions of everything."""
    jars = {match[1]: match[2] for jar in settings.jars.rglob("*.jar") if (match := _NAME.match(jar.name))}
    versions = {"Python": python_version(), "Java": _java(), **{name: version(name) for name in _PACKAGES}}
    versions |= {"Kafka broker": jars.get("kafka_2.13", "?"), "delta-spark JAR": jars.get("delta-spark_4.2_2.13", "?")}
    engine = f"engine `{settings.spark_master}` with {settings.spark_driver_memory}, which a pair shares"
    return ", ".join([engine, *(f"{name} {number}" for name, number in versions.items())])


def speed() -> tuple[float, float, float]:
    """MB of a fixed text that zlib packs in a second, by one core and by all of them at once; and round trips over
    loopback in a second: the same processor can be half as fast at another hour, or its system calls can, without a
    sign of it in load or stolen time. Medians of five."""
    text = b"".join(sha256(b"%d" % n).hexdigest().encode() for n in range(_HASHES))

    def rate(threads: int) -> float:
        begun = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(zlib.compress, [text] * threads))
        return threads * len(text) / 1e6 / (time.perf_counter() - begun)

    one, every = (median(rate(threads) for _ in range(5)) for threads in (1, os.cpu_count() or 1))
    return round(one, 1), round(every, 1), round(median(_round_trips() for _ in range(5)))


def _round_trips() -> float:
    """How many times in a second a byte goes to another process, over loopback, and comes back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE)
        command = [sys.executable, "-c", _ECHO, str(server.getsockname()[1])]
        with subprocess.Popen(command), server.accept()[0] as connection:  # it ends when the connection does
            connection.settimeout(_PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun = time.perf_counter()
            for _ in range(_TRIPS):
                connection.sendall(b".")
                connection.recv(1)
            taken = time.perf_counter() - begun
    return _TRIPS / taken


_ECHO = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while told := connection.recv(1):
        connection.sendall(told)
"""
_TRIPS = 5_000
_PATIENCE = 30.0
_HASHES = 1 << 17
_NAME = re.compile(r"(?:.*_)?(kafka_2\.13|delta-spark_4\.2_2\.13)-([0-9.]+)\.jar$")


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "unknown processor"


def _java() -> str:
    from anabranch.operate.runtime.kafka_server import java

    told = subprocess.run([java(), "-version"], capture_output=True, text=True, timeout=30).stderr
    found = re.search(r'"([^"]+)"', told)
    return found[1] if found else "?"
