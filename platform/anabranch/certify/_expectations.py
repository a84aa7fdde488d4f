"""Our checks as a Great Expectations class, for the Data Docs. Import this module inside functions only: Great
Expectations takes seconds to import."""

from __future__ import annotations

from typing import Any

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer

from anabranch.certify._run_checks import CheckResult

_SHOWN = 20
"""How many partitions of a failed check are listed."""


class ExpectNoPartitionToOffend(BatchExpectation):
    """A check that has already run, with its result per partition."""

    check: str
    says: str

    @classmethod
    def of(cls, result: CheckResult) -> ExpectNoPartitionToOffend:
        return cls(check=result.check, says=result.says)

    def _validate(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the check has already run in Spark")

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[RenderedStringTemplateContent]:
        template = {"template": "$check: $says", "params": dict(configuration.kwargs)}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


def outcome_of(result: CheckResult) -> dict[str, Any]:
    """Return the result in the form that the library uses for its own results."""
    days = [f"{day or 'no partition'}: {number:,}" for day, number in [*result.offending.items()][:_SHOWN]]
    more = len(result.offending) - len(days)
    shown = ", ".join([*days, *([f"and {more} more partitions"] if more > 0 else [])])
    observed = f"{sum(result.offending.values()):,} of {result.rows:,}" + (f" ({shown})" if shown else "")
    exception = {"raised_exception": bool(result.error), "exception_message": result.error, "exception_traceback": ""}
    return {"result": {"observed_value": observed}, "exception_info": exception}
