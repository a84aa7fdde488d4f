"""Each Spark test has a home of its own beside the shared session."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.core.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home")
