"""The functions whose time a benchmark measures are named in strings, which no rename and no type checker follows."""

from __future__ import annotations

import pytest

from benchmarks.cases import batch, landing, reprocess, speed
from benchmarks.timing import spans

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", [batch, landing, reprocess, speed], ids=lambda case: case.__name__.split(".")[-1])
def test_each_measured_function_exists(case: object) -> None:
    with spans(vars(case)["STAGES"]):
        pass
