"""Which days the build must have rows for, because the speed half has some."""

from __future__ import annotations

from typing import Any

import pytest
from anabranch.certify._check_inputs import unchanged_partitions
from anabranch.certify.certify_partitions import Comparison
from anabranch.ingest.landing.table.event_counts import EventCount
from support.small_platform import DAYS

pytestmark = pytest.mark.unit


def test_a_day_that_batch_may_rightly_have_no_row_of_is_left_out() -> None:
    counts = {
        DAYS[0]: EventCount(5),
        DAYS[1]: EventCount(5, late=1),
        DAYS[2]: EventCount(5, loaded=1),
        DAYS[3]: EventCount(5),
        DAYS[4]: EventCount(5, between=2),
    }
    nothing: Any = None
    closed, between = DAYS[3], DAYS[4]
    comparison = Comparison(nothing, nothing, DAYS, [], {closed, between}, counts, nothing, {})
    assert unchanged_partitions(comparison) == DAYS[:1]
