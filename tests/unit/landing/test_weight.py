"""How many records landing takes into its own process: what they may weigh is bounded, whatever records weigh."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.core.settings import heap_bytes, load_settings
from anabranch.ingest.landing._weight import Weight
from anabranch.lake.files import stage_arrow
from support.landed_sample import FLIGHTS

pytestmark = pytest.mark.unit

MEGABYTE = 2**20


@pytest.fixture
def weight(tmp_path: Path) -> Weight:
    """With room for 256 MB; a record may have one."""
    return Weight(load_settings(home=tmp_path, spark_driver_memory="2g"), FLIGHTS)


def test_before_the_first_micro_batch_each_record_may_weigh_the_most(weight: Weight) -> None:
    assert weight.are_few(256)
    assert not weight.are_few(257)


def test_then_they_weigh_what_the_last_ones_did_and_as_much_again(weight: Weight) -> None:
    weight.seen(1_000 * 400, 1_000)
    assert weight.are_few(300_000)
    assert not weight.are_few(400_000)
    weight.seen(0, 0)
    assert weight.are_few(300_000)
    weight.seen(10 * 4 * MEGABYTE, 10)
    assert not weight.are_few(33)


def test_what_spark_has_staged_is_weighed_by_its_files(weight: Weight, tmp_path: Path) -> None:
    rows = pa.table({"value": [os.urandom(100_000) for _ in range(100)], "other": ["x" * 9_000] * 100})
    weight.seen_in(str(tmp_path), stage_arrow(rows, str(tmp_path), "one", None))
    assert weight.are_few(1_300)
    assert not weight.are_few(1_400)


@pytest.mark.parametrize(
    ("memory", "conf", "found"),
    [("600m", {}, 600 * MEGABYTE), ("2g", {"spark.driver.memory": "4G"}, 2**32), ("2T", {}, 2**41)],
)
def test_the_heap_is_what_the_engine_is_given(tmp_path: Path, memory: str, conf: dict[str, str], found: int) -> None:
    assert heap_bytes(load_settings(home=tmp_path, spark_driver_memory=memory, spark_conf=conf)) == found
