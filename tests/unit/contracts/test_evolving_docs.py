"""What the how-to shows is what the tests run, and the errors that it names can be raised."""

from __future__ import annotations

import re

import pytest
from anabranch.core.project_folder import project_root

pytestmark = pytest.mark.unit
TEXT = (project_root() / "docs" / "evolving-a-contract.md").read_text()


def test_the_upcaster_is_the_one_of_the_example() -> None:
    example = (project_root() / "tests" / "spark" / "evolution" / "contracts" / "departures.py").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    function = block.split("\n\n")[0].splitlines()
    assert len(function) > 5
    assert [line for line in function if line not in example.splitlines()] == []


def test_the_errors_that_are_named_exist() -> None:
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", TEXT))
    source = "".join(file.read_text() for file in (project_root() / "platform").rglob("*.py"))
    assert len(named) >= 4
    assert {code for code in named if f'"{code}"' not in source} == set()


def test_it_is_short() -> None:
    assert 40 <= len(TEXT.splitlines()) <= 65
