"""Losses that a person has accepted stay accepted, whatever has become of the commit that names them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.audit import accepted_losses, verify
from anabranch.ingest.landing.empty_offsets import all_losses
from anabranch.ingest.landing.state import open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, INDEXED, landing_schema
from anabranch.lake import CommitMetadata, commit_history
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.log.delta_tables import folder_of
from support.landed_sample import FLIGHTS

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> dict[str, Mapping[int, int]]:
    """What the broker says of the log."""
    ends: dict[str, Mapping[int, int]] = {"begin": {0: 0, 1: 0}, "end": {0: 0, 1: 0}}
    for module in (accepted_losses, verify):
        monkeypatch.setattr(module, "begin_offsets", lambda *_: ends["begin"])
    for name in ("end_offsets", "readable_ends"):
        monkeypatch.setattr(verify, name, lambda *_: ends["end"])
    return ends


def land(settings: Settings, partition: int, first: int, until: int) -> None:
    """An epoch with these offsets, as landing commits it."""
    table = open_landing(settings, FLIGHTS)
    before = read_state(table, FLIGHTS)
    rows = [
        {"partition": partition, "offset": o, "decision": "quarantined", "reason": "x", "epoch": before.epoch + 1}
        for o in range(first, until)
    ]
    staged = stage_arrow(
        pa.Table.from_pylist(rows, landing_schema(FLIGHTS)),
        str(folder_of(table)),
        f"epoch-{before.epoch + 1}-a",
        EVENT_DATE,
        INDEXED,
    )
    extra: dict[str, Any] = {"watermark_us": None, "rows": len(rows), **before.carried()}
    if not before.epoch:
        extra["begin"] = {"0": 0, "1": 0}
    cut = Cut({FLIGHTS.name: Position(before.epoch + 1, {**before.offsets, partition: until})})
    append(table, staged, CommitMetadata(writer_of(FLIGHTS), f"batch:{before.epoch}", cut, extra=extra))


def test_a_loss_is_known_when_the_commit_that_accepted_it_is_gone(
    settings: Settings, log: dict[str, Mapping[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    land(settings, 0, 0, 5)
    log |= {"begin": {0: 7, 1: 4}, "end": {0: 9, 1: 6}}
    assert len(accepted_losses.accept_loss(settings, FLIGHTS, "the disk was full")) == 2
    land(settings, 0, 7, 9)
    land(settings, 1, 4, 6)
    proof = verify.verify(settings, FLIGHTS)
    assert proof.sound, proof
    assert {str(loss["why"]) for loss in proof.accepted_losses} == {"the disk was full"}

    monkeypatch.setattr(verify, "commit_history", lambda table: list(commit_history(table))[:1])
    proof = verify.verify(settings, FLIGHTS)
    assert proof.sound, proof
    assert [dict(loss) for loss in proof.accepted_losses] == [
        {"partition": 0, "from": 5, "to": 7},
        {"partition": 1, "from": 0, "to": 4},
    ]


def test_a_loss_that_an_older_version_recorded_is_carried_from_the_next_commit_on(
    settings: Settings, log: dict[str, Mapping[int, int]]
) -> None:
    table = open_landing(settings, FLIGHTS)
    lost = [{"partition": 0, "from": 0, "to": 3, "why": "x"}]
    cut = Cut({FLIGHTS.name: Position(1, {0: 3})})
    extra = {"watermark_us": None, "rows": 0, "lost": lost}
    append(table, [], CommitMetadata(writer_of(FLIGHTS), "loss:1", cut, extra=extra))
    land(settings, 0, 3, 4)
    newest = list(commit_history(open_landing(settings, FLIGHTS)))[:1]
    assert [dict(loss) for loss in all_losses(newest)] == [{"partition": 0, "from": 0, "to": 3}]


def test_before_anything_has_landed_nothing_is_lost(settings: Settings, log: dict[str, Mapping[int, int]]) -> None:
    log["begin"] = {0: 7, 1: 4}
    with pytest.raises(BadInput) as caught:
        accepted_losses.accept_loss(settings, FLIGHTS, "a test")
    assert caught.value.code == "NOTHING_LOST"
