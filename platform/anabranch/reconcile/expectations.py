"""The platform's own expectations. Import this module inside functions only: Great Expectations costs seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

from anabranch.reconcile.checks import Check, equality_query
from anabranch.views.definition import View


class ExpectNoPartitionToOffend(UnexpectedRowsExpectation):
    """A check whose query returns one row per partition in which it fails."""

    @classmethod
    def of(cls, check: Check) -> ExpectNoPartitionToOffend:
        return cls(unexpected_rows_query=check.query, description=check.says, meta={"check": check.name})


class ExpectBothPathsToBeEqual(ExpectNoPartitionToOffend):
    """The rows of the speed half equal, key by key and column by column, what the same events give in batch.

    Great Expectations' own comparisons of two tables don't work on Spark; a query with a full outer join does.
    """

    NAME: ClassVar[str] = "both_paths_equal"

    @classmethod
    def over(cls, view: View, columns: Sequence[str], expected: str) -> ExpectNoPartitionToOffend:
        says = "The speed half equals the view's function over the same events, row by row, in every column."
        return cls.of(Check(cls.NAME, says, equality_query(view, columns, expected)))
