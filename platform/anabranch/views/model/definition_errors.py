"""Build the error for a refused definition: its file and line, the view, the problem, and what to write instead."""

from __future__ import annotations

from typing import Any

from anabranch.core.errors import BadDefinition
from anabranch.views.model.definition import Definition


def definition_error(
    code: str, view: Definition, what: str, *, line: int | None = None, next_step: str = "", **fields: Any
) -> BadDefinition:
    """Message: ``spark_jobs/views/x.py:12: x v1: line 18: what``. Line 12 is the definition, 18 the call, if known."""
    where = f"line {line}: " if line else ""
    return BadDefinition(
        code,
        f"{view.origin}: {view.name} v{view.version}: {where}{what}",
        state="the view was not registered; nothing was written",
        next_step=next_step,
        view=view.name,
        version=view.version,
        file=view.origin.file,
        definition=view.origin.line,
        line=line,
        **fields,
    )
