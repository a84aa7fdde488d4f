"""Unit tests of what is stored run on the local disk and in its hostile twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(params=["disk", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on the local disk, then one in an object store."""
    if request.param == "disk":
        yield tmp_path
        return
    from support.object_store import object_store

    with object_store(tmp_path):
        yield tmp_path
