"""Tests of DAG files share the process that has loaded Airflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.parsed_dags import Parse, parser


@pytest.fixture(scope="session")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parse]:
    with parser(tmp_path_factory.mktemp("airflow")) as found:
        yield found
