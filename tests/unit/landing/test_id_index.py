"""The index of ids against a plain set, through merges of every kind, restarts and crashes."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from anabranch.ingest.landing import id_hashes, id_index
from anabranch.ingest.landing.id_hashes import Hashes
from anabranch.ingest.landing.id_index import IdIndex, Origin

pytestmark = pytest.mark.unit
FIRST = date(2026, 1, 1)
ORIGIN = Origin("table", 3, "batch")


def drawn(rng: np.random.Generator, count: int) -> Hashes:
    """Few upper halves, so that several hashes share one; some at the ends of what 64 bits hold."""
    upper = rng.choice(np.array([0, 1, 2**32, 2**63, 2**64 - 2, 2**64 - 1], np.uint64), count)
    return np.stack([upper, rng.integers(0, 400, count, np.uint64)])


def pairs(hashes: Hashes) -> set[tuple[int, ...]]:
    return {tuple(pair) for pair in hashes.T.tolist()}


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merges happen at once, beside, and in chunks, with a few hundred hashes."""
    monkeypatch.setattr(id_index, "SMALLEST", 4)
    monkeypatch.setattr(id_index, "AT_ONCE", 100)
    monkeypatch.setattr(id_hashes, "CHUNK", 50)


@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize("seed", range(4))
def test_it_knows_what_a_set_would_know(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    held: dict[date | None, set[tuple[int, ...]]] = {}
    ids = IdIndex(tmp_path)
    for step in range(120):
        day = FIRST + timedelta(days=step // 30 + int(rng.integers(-1, 2))) if rng.integers(0, 2) else None
        hashes = drawn(rng, int(rng.integers(1, 40)))
        ids.add(day, hashes)
        held.setdefault(day, set()).update(pairs(hashes))
        match rng.integers(0, 12):
            case 0:
                ids.settle()
            case 1:
                ids.save(ORIGIN)
                ids = IdIndex(tmp_path)
                assert ids.origin == ORIGIN
            case 2:
                oldest = FIRST + timedelta(days=step // 30 - 1)
                ids.forget(oldest)
                held = {day: known for day, known in held.items() if day is None or day >= oldest}
        wanted = drawn(rng, 50)
        expected = set().union(*held.values())
        assert ids.known(wanted).tolist() == [tuple(pair) in expected for pair in wanted.T.tolist()]
    ids.settle()
    ids.save(ORIGIN)
    files = len(list(tmp_path.glob("*.npy")))
    assert files < 60, "a hundred and twenty files were merged"


@pytest.mark.usefixtures("small_sizes")
def test_a_day_that_is_over_ends_as_few_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ids = IdIndex(tmp_path)
    for _ in range(7):
        ids.add(FIRST, drawn(rng, 10))
    ids.save(ORIGIN)
    assert len(list(tmp_path.glob("*.npy"))) == 7
    ids.add(FIRST + timedelta(days=1), drawn(rng, 10))
    ids.save(ORIGIN)
    assert len(list(tmp_path.glob("*.npy"))) <= 3


def test_a_crash_before_save_leaves_what_was_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    saved, lost = drawn(rng, 10), np.full((2, 3), 7, np.uint64)
    ids = IdIndex(tmp_path)
    ids.add(FIRST, saved)
    ids.save(ORIGIN)
    ids.add(FIRST, lost)
    again = IdIndex(tmp_path)
    assert again.known(saved).all()
    assert not again.known(lost).any()
    assert len(list(tmp_path.glob("*.npy"))) == 1


@pytest.mark.parametrize("damage", ["cut short", "gone", "other bytes", "another form", "no manifest", "no json"])
def test_what_cannot_be_read_is_an_empty_index(tmp_path: Path, damage: str) -> None:
    ids = IdIndex(tmp_path)
    ids.add(FIRST, drawn(np.random.default_rng(1), 10))
    ids.save(ORIGIN)
    (file,), manifest = tmp_path.glob("*.npy"), tmp_path / "index.json"
    actions: dict[str, Any] = {
        "cut short": lambda: file.write_bytes(file.read_bytes()[:-8]),
        "gone": file.unlink,
        "other bytes": lambda: file.write_bytes(b"PK" + b"0" * 300),
        "another form": lambda: manifest.write_text(manifest.read_text().replace(id_index.FORM, "md5:0")),
        "no manifest": manifest.unlink,
        "no json": lambda: manifest.write_text("{"),
    }
    actions[damage]()
    again = IdIndex(tmp_path)
    assert (again.origin, len(again)) == (None, 0)
