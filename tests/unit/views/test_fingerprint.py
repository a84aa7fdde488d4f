"""The fingerprint follows what is computed, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.project_folder import project_root
from anabranch.views import load_views
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
TEXT = '''\
"""A module."""

from anabranch.views import view
from pyspark.sql import DataFrame, functions as F

LIMIT = 15
UNUSED = 1


def late(column: str):
    """Over the limit."""
    return bounded(column) > LIMIT


def bounded(column):
    return F.least(F.col(column), F.lit(600))


def unused():
    return UNUSED


@view(name="delayed", version=1, events=["flight.departed"], key=["hour", "origin"], partition_by="hour")
def delayed(departed: DataFrame) -> DataFrame:
    """How many are late."""
    hours = departed.where(late("dep_delay")).groupBy(F.window("event_time", "1 hour"), "origin")
    return hours.count().select("origin", F.col("window.start").alias("hour"), "count")
'''
_numbers = iter(range(10**9))


@pytest.fixture(scope="module")
def fingerprint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder = tmp_path_factory.mktemp("fingerprints")

    def of(text: str) -> str:
        own = folder / str(next(_numbers))
        own.mkdir()
        (own / "views.py").write_text(text)
        (found,) = load_views(own, DECLARED)
        return found.fingerprint

    return of


def replaced(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


SAME = {
    "a comment": replaced("LIMIT = 15", "# fifteen minutes\nLIMIT = 15  # minutes"),
    "brackets and line breaks": replaced('late("dep_delay"))', '(late(\n        "dep_delay",\n    ))\n    )'),
    "quotes": replaced('"dep_delay"', "'dep_delay'"),
    "a number written otherwise": replaced("F.lit(600)", "F.lit(6_00)"),
    "a docstring": replaced('"""How many are late."""', '"""Counts, by hour."""').replace('"""Over the limit."""', ""),
    "a hint": replaced("departed: DataFrame) -> DataFrame", "departed)").replace("column: str", "column: object"),
    "another line": "\n\n\n" + TEXT,
    "order of helpers": replaced("LIMIT = 15\n", "").replace("def unused", "LIMIT = 15\n\n\ndef unused"),
    "what isn't used": replaced("UNUSED = 1", "UNUSED = 2").replace("return UNUSED", "return -UNUSED"),
    "an import more": replaced("import DataFrame, functions as F", "import Column, DataFrame, functions as F"),
    "the name of the function": replaced("def delayed(", "def delayed_flights("),
    "the spelling of a duration": replaced('partition_by="hour")', 'partition_by="hour", lookback="0 days")'),
}
OTHER = {
    "a hint on a variable": replaced("LIMIT = 15", "LIMIT: int = 15"),
    "a constant": replaced("LIMIT = 15", "LIMIT = 16"),
    "a constant's type": replaced("LIMIT = 15", "LIMIT = 15.0"),
    "a constant of a helper's helper": replaced("F.lit(600)", "F.lit(601)"),
    "a helper": replaced("bounded(column) > LIMIT", "bounded(column) >= LIMIT"),
    "the function": replaced('"1 hour"', '"2 hours"'),
    "a column": replaced('"origin", F', '"origin".upper(), F'),
    "the order of two steps": replaced("F.least(F.col(column), F.lit(600))", "F.least(F.lit(600), F.col(column))"),
    "what a name means": replaced("functions as F", "types as F"),
    "the refresh": replaced("version=1", 'version=1, refresh="partitions"'),
    "what closes": replaced("version=1", 'version=1, refresh="partitions", closes=True'),
    "the name": replaced('name="delayed"', 'name="delays"'),
    "the version": replaced("version=1", "version=2"),
    "the key": replaced('["hour", "origin"]', '["origin", "hour"]'),
    "lookback": replaced('partition_by="hour")', 'partition_by="hour", lookback="1 hour")'),
    "kappa": replaced(', partition_by="hour")', ")"),
}


@pytest.mark.parametrize("case", SAME)
def test_it_stays(fingerprint: Callable[[str], str], case: str) -> None:
    assert SAME[case] != TEXT
    assert fingerprint(SAME[case]) == fingerprint(TEXT)


@pytest.mark.parametrize("case", OTHER)
def test_it_changes(fingerprint: Callable[[str], str], case: str) -> None:
    assert fingerprint(OTHER[case]) != fingerprint(TEXT)


def test_it_does_not_depend_on_the_version_of_python(fingerprint: Callable[[str], str]) -> None:
    """A figure that is written down beside data: when this changes, every registered view is refused."""
    assert fingerprint(TEXT) == "34c72a7499c343f0"


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_blank_lines_and_comments_between_statements_change_nothing(
    fingerprint: Callable[[str], str], data: st.DataObject
) -> None:
    starts = sorted({n.lineno for n in ast.walk(ast.parse(TEXT)) if isinstance(n, ast.stmt)} - {1}, reverse=True)
    comment = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), max_size=20)
    lines = TEXT.splitlines()
    for start in data.draw(
        st.lists(st.sampled_from(starts), unique=True).map(lambda found: sorted(found, reverse=True))
    ):
        before = lines[start - 2] if start > 1 else ""
        indent = lines[start - 1][: len(lines[start - 1]) - len(lines[start - 1].lstrip())]
        if not before.startswith("@"):
            lines[start - 1 : start - 1] = [f"{indent}# {data.draw(comment)}"] + [""] * data.draw(st.integers(0, 2))
    assert fingerprint("\n".join(lines) + "\n") == fingerprint(TEXT)
