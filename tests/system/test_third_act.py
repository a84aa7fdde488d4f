"""The demo's third act on a real broker: what other teams' producers send becomes a view that is exact to the cent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.core.settings import Settings
from anabranch_samples.demo._third_act import SHOP, third_act

if TYPE_CHECKING:
    from anabranch.ingest.landing.audit.verify import Proof
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system


class Heard:
    """What the act says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[str], None]]:
        self.lines.append(what)
        yield self.lines.append

    def say(self, text: str = "") -> None:
        self.lines.append(text)

    def quote(self, lines: Sequence[str]) -> None:
        self.lines += lines


def test_topics_of_other_teams_become_a_certified_view(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    heard, proofs = Heard(), list["Proof"]()
    settings = broker.model_copy(update={"home": tmp_path, "shuffle_partitions": 2})
    third_act(settings, heard, proofs.append, spark)
    assert [proof.sound for proof in proofs] == [True, True]
    counted = [
        [sum(getattr(p, name) for p in proof.partitions) for name in ("quarantined", "tombstones")] for proof in proofs
    ]
    assert counted == [[3, 1], [3, 1]]
    told = "\n".join(heard.lines)
    assert "3 of 3 equal" in told
    assert "800 sales: to the cent what was sent" in told
    assert "in quarantine: 1 for not_avro: it ends in the middle of a value, at byte 4" in told


def test_the_producers_know_nothing_of_the_platform() -> None:
    assert "anabranch" not in SHOP.with_name("_shop_sender.py").read_text()
