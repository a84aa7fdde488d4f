"""What the Data Docs know of our checks. Import this module inside functions only: Great Expectations costs seconds."""

from __future__ import annotations

from typing import Any

from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer

from anabranch.certify.run_checks import CheckResult

_SHOWN = 20
"""How many partitions of a failed check are named."""


class ExpectNoPartitionToOffend(BatchExpectation):
    """A check that has been asked by partition."""

    check: str
    says: str

    @classmethod
    def of(cls, result: CheckResult) -> ExpectNoPartitionToOffend:
        return cls(check=result.check, says=result.says)

    def _validate(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("it has been asked already, by Spark")

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None
    ) -> list[RenderedStringTemplateContent]:
        template = {"template": "$check: $says", "params": dict(configuration.kwargs)}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


def outcome_of(result: CheckResult) -> dict[str, Any]:
    """As the library tells of what it has found out itself."""
    days = [f"{day or 'somewhere'}: {number:,}" for day, number in [*result.offending.items()][:_SHOWN]]
    more = len(result.offending) - len(days)
    shown = ", ".join([*days, *([f"and {more} more partitions"] if more > 0 else [])])
    observed = f"{sum(result.offending.values()):,} of {result.rows:,}" + (f" ({shown})" if shown else "")
    broke = {"raised_exception": bool(result.error), "exception_message": result.error, "exception_traceback": ""}
    return {"result": {"observed_value": observed}, "exception_info": broke}
