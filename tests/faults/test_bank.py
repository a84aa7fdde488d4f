"""Money is neither made nor lost: each read shows what was there at its cut, whatever is killed meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import ensure_topics
from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.runtime import lifecycle
from faults.bank.customers import TOPIC, Customers
from faults.bank.operations import Kill, Operations, made_project
from faults.bank.readers import ENGINES, Read, Readers, wrong
from faults.bank.truth import Truth, truth_of
from support.processes import eventually, working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system


@dataclass(frozen=True)
class Form:
    """``versions``: of each view. ``pace``: hours of event time a second. ``interval``: between two epochs. ``rest``:
    seconds between two reads of an engine. ``reads`` and ``kills``: how many there are at least. ``shared``: days are
    rebuilt in the readers' session, which runs already; otherwise in a process that can be killed."""

    versions: int
    pace: float
    interval: str
    rest: float
    reads: int
    kills: int
    shared: bool = False


SMALL = Form(versions=1, pace=1.0, interval="2 seconds", rest=0.3, reads=200, kills=2, shared=True)
LARGE = Form(versions=2, pace=0.4, interval="4 seconds", rest=0.4, reads=10_000, kills=10)


@dataclass(frozen=True)
class Bank:
    settings: Settings
    customers: Customers
    operations: Operations
    readers: Readers


@contextmanager
def opened(broker: Settings, spark: SparkSession, folder: Path, form: Form) -> Iterator[Bank]:
    """Customers come first. Readers stay until everything has landed and every view covers it."""
    project = made_project(folder / "project", form.versions)
    more = {"spark_driver_memory": "1g", "shuffle_partitions": 1, "landing_interval": form.interval}
    settings = broker.model_copy(update={"home": folder / "home", "project": project, **more})
    declared = load_declarations(settings.project / "spark_jobs" / "contracts")
    ensure_topics(settings, declared, [TOPIC])
    bank = Bank(
        settings,
        Customers(settings, declared, form.pace),
        Operations(settings, spark if form.shared else None),
        Readers(settings, spark, form.rest),
    )
    reads = bank.readers.reads
    try:
        for name in ("landing", "speed"):
            bank.operations.start(name)
        with ExitStack() as reading:
            with working(bank.customers.send):
                eventually(bank.operations.is_open)
                reading.enter_context(working(*bank.readers.works()))
                yield bank
            eventually(lambda: len(truth_of(settings).ids) >= len(bank.customers.sent))
            eventually(bank.operations.is_level)
            seen = len(reads)
            eventually(lambda: len(reads) >= seen + 15)
    finally:
        bank.operations.end()


def check(bank: Bank, form: Form) -> None:
    seen, truth = bank.readers.reads, truth_of(bank.settings)
    assert bank.readers.failed == []
    assert wrong(seen, truth)[:20] == []
    check_the_judge(seen, truth)
    engines = Counter(read.engine for read in seen)
    assert engines.keys() == {*ENGINES, "spark"}
    assert min(engines.values()) >= form.reads / 50
    assert len(seen) >= form.reads
    assert len(bank.operations.killed) >= form.kills, bank.operations.killed
    assert bank.operations.crashed == []
    assert {part.half for read in seen for part in read.parts.values()} == {"batch", "speed"}
    assert {read.version for read in seen} == set(range(1, form.versions + 1))
    check_landing(bank, truth)


def check_landing(bank: Bank, truth: Truth) -> None:
    """What is true is what customers have sent, each of it once."""
    assert bank.customers.failed == []
    assert sorted(truth.ids) == sorted(bank.customers.sent)
    (topic,) = bank.operations.registry.declarations.topics.values()
    assert verify(bank.settings, topic).sound


def check_the_judge(seen: list[Read], truth: Truth) -> None:
    """One cent more or one epoch less is found."""
    for view in ("balances", "flows"):
        read = next(read for read in reversed(seen) if read.view == view and read.prefer == "default")
        day, part = next((day, part) for day, part in read.parts.items() if part.facts.movements)
        spoilt = replace(part, facts=replace(part.facts, total=part.facts.total + 1))
        assert wrong([replace(read, parts={**read.parts, day: spoilt})], truth)
        assert wrong([read, replace(read, at=read.at - 1)], truth)


@pytest.mark.sweep
@pytest.mark.timeout(300)
def test_each_read_shows_the_money_of_its_cut_while_streams_and_a_publication_are_killed(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    with opened(broker, spark, tmp_path, SMALL) as bank:
        # Readers have the old cut while days are published at a newer one.
        kills = Kill("plan", "started", "speed", down=True), Kill("publish", "publishing")
        bank.operations.reprocess("flows", 1, *kills)
    check(bank, SMALL)


@pytest.mark.sweep
@pytest.mark.timeout(2_400)
def test_ten_thousand_reads_show_the_money_of_their_cuts_beside_ten_kills(
    own_settings: Callable[[str], Settings], spark: SparkSession, tmp_path: Path
) -> None:
    with lifecycle.running(own_settings("bank"), ["kafka"]) as broker:
        with opened(broker, spark, tmp_path, LARGE) as bank:
            steps(bank.operations)
            while len(bank.readers.reads) < LARGE.reads or len(bank.operations.killed) < LARGE.kills:
                bank.operations.repair("flows", 2, Kill("rebuild", "built"))
        check(bank, LARGE)  # the log is asked, too


def steps(work: Operations) -> None:
    """Rebuilds, repairs, replays and migrations, one after the other, with a kill in most of them."""
    work.reprocess("flows", 1, Kill("rebuild", "staged"))
    work.reprocess("flows", 2, Kill("rebuild", "staged", "speed", "jvm"))
    work.migrate("flows", 50, Kill("migrate", "started", "landing"))
    work.repair("flows", 1, Kill("publish", "publishing"))
    work.replay("balances", 1, Kill("replay", "streaming", how="python"))
    work.migrate("flows", 0)
    work.migrate("flows", 100, Kill("migrate", "moved"))
    work.reprocess("flows", 2, Kill("plan", "started", "speed", down=True))
    work.replay("flows", 2, Kill("replay", "certifying"))
    work.repair("flows", 2, Kill("rebuild", "built", "landing", "jvm", down=True))
    work.replay("balances", 2, Kill("replay", "streaming", "speed", "python"))
    work.migrate("balances", 100)
    work.repair("flows", 2, Kill("rebuild", "built", "speed"))
