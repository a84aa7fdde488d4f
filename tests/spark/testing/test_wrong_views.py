"""Mistakes that people make, one a view: each is caught, and the message names the cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.errors import BadDefinition
from corpus import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WRONG = examples("wrong_views")


@pytest.mark.parametrize("name", WRONG)
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
    assert len(WRONG) >= 30
