"""An idle engine of streams holds little of its heap free, one at work much."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from anabranch.core.engine.idle_memory import HEAP_FREE_IDLE, collect_engine
from anabranch.core.engine.java_options import HEAP_FREE_AT_WORK, live_engine
from anabranch.core.settings import Settings
from anabranch.operate.runtime.kafka_server import java
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

pytestmark = pytest.mark.spark
LIVE = 150
"""MB that are in use."""


@pytest.fixture
def jvm(engine_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """With an engine's options, and 150 MB in use."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    options = shlex.split(live_engine(engine_settings)["spark.driver.defaultJavaOptions"])
    (jar,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    port = launch_gateway(jarpath=str(jar), classpath=str(jar), javaopts=options, java_path=java(), die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    used = gateway.new_array(gateway.jvm.byte, LIVE, 1 << 20)
    yield gateway.jvm
    del used
    gateway.shutdown()


def used(jvm: Any) -> int:
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory()) >> 20


def heap(jvm: Any) -> int:
    return int(jvm.Runtime.getRuntime().totalMemory()) >> 20


def test_it_returns_more_when_idle_than_at_work(jvm: Any) -> None:
    jvm.System.gc()
    at_work = heap(jvm)
    collect_engine(jvm)
    idle = heap(jvm)
    jvm.System.gc()
    assert at_work >= LIVE / (1 - HEAP_FREE_AT_WORK[0] / 100)
    assert idle <= LIVE / (1 - HEAP_FREE_IDLE[1] / 100) + 100, "and what is for new objects"
    assert heap(jvm) == pytest.approx(at_work, rel=0.05), "work that comes again finds room"


def test_what_cleaners_let_go_of_goes_too(jvm: Any) -> None:
    """Spark's holds what belongs to a query until that is collected."""
    cleaner, gone = jvm.java.lang.ref.Cleaner.create(), jvm.Object()
    task = jvm.java.util.concurrent.FutureTask(jvm.Thread(), jvm.java.nio.ByteBuffer.allocate(100 << 20))
    cleaner.register(gone, task)
    del gone, task
    gc.collect()  # Python's proxies hold what they stand for
    assert used(jvm) >= LIVE + 100
    collect_engine(jvm)
    assert used(jvm) < LIVE + 50
