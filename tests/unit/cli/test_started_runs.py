"""A command that starts a run of Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.apps.cli._run_progress import carried_out
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit


def test_an_approval_that_nobody_would_give_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--no-wait doesn't wait for") as refused:
        carried_out(Settings(home=tmp_path), "reprocess_delays", {}, wait=False, approve=True)
    assert (refused.value.code, refused.value.state) == ("PARAMETER", "nothing was started")
