"""Mistakes that people make, one a view: each is caught, and the message names the cause.

Every second one in each run, all of them in ``make sweep``: together they take some four minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.core.errors import BadDefinition
from support.view_corpus import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WRONG = examples("wrong_views")
EACH = [pytest.param(name, marks=[pytest.mark.sweep] if n % 2 else []) for n, name in enumerate(WRONG)]


@pytest.mark.parametrize("name", EACH)
def test_it_is_caught(spark: SparkSession, tmp_path: Path, name: str) -> None:
    wrong = WRONG[name]
    with pytest.raises(BadDefinition) as caught:
        wrong.prove(tmp_path, spark=spark)
    assert caught.value.code in wrong.caught, str(caught.value)
    assert wrong.says.casefold() in str(caught.value).casefold()
    print(caught.value)  # noqa: T201
    assert str(caught.value).startswith(f"{wrong.path.relative_to(Path(wrong.path).parents[4])}:")
    assert caught.value.next_step


def test_there_are_enough() -> None:
    assert sum(not each.marks for each in EACH) >= 30
