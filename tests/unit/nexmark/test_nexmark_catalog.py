"""Each query of the benchmark is there four times (view, hand-written, DuckDB, words), or it is said why it isn't."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from benchmarks.nexmark import catalog
from benchmarks.nexmark.declared import views
from benchmarks.nexmark.generator import Workload
from benchmarks.nexmark.handwritten.queries import QUERIES
from benchmarks.nexmark.oracle_queries import ANSWERS
from benchmarks.nexmark.paths import short

pytestmark = pytest.mark.unit

ALL = {f"q{number}" for number in range(23)}


def test_every_query_is_a_view_or_it_is_said_why_not() -> None:
    here = {short(view) for view in views()}
    assert here | set(catalog.LEFT_OUT) == ALL
    assert not here & set(catalog.LEFT_OUT)
    assert set(catalog.ASKS) == ALL


def test_every_view_has_its_oracle_and_its_hand_written_job() -> None:
    here = {short(view) for view in views()}
    assert here == set(ANSWERS) == set(QUERIES)


def test_the_hand_written_job_is_as_its_view_says() -> None:
    """The same key and day; what the platform keeps by state is streamed by hand too, and nothing else."""
    for view in views():
        query = QUERIES[short(view)]
        assert (query.key, query.day) == (view.key, view.partition_by)
        assert query.streams == (view.refresh == "state")


def test_the_days_reach_from_the_first_window_to_the_last_auctions_end() -> None:
    day = Workload(20_000, begin=datetime(2015, 7, 15, tzinfo=UTC))
    assert day.days == [date(2015, 7, 14), date(2015, 7, 15), date(2015, 7, 16)]
    afternoon = Workload(5_000, begin=datetime(2015, 7, 14, 14, tzinfo=UTC))
    assert afternoon.days == [date(2015, 7, 14)]
    evening = Workload(6_000, begin=datetime(2015, 7, 14, 14, tzinfo=UTC))  # the last auction opens after nine
    assert evening.days == [date(2015, 7, 14), date(2015, 7, 15)]
