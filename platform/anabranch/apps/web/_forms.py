"""Parses the forms of these pages, with a limit on their size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar
from urllib.parse import parse_qs

from fastapi import HTTPException, Request

from anabranch.core.errors import BadInput

Form = Mapping[str, str]
N = TypeVar("N", int, float)
_MOST_BYTES = 16_384


async def form_of(request: Request) -> Form:
    """Reads a form. Raises HTTP 413 or 415, or BadInput FORM_UNREADABLE. Called after the user is authorised."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "a form is needed (application/x-www-form-urlencoded)")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "this form is too long")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=8)
    except ValueError:
        raise _unreadable() from None
    return {name: values[-1] for name, values in fields.items()}


def one_of(actions: Collection[str], fields: Form) -> str:
    """Returns the button that was pressed. Raises BadInput ACTION_UNKNOWN."""
    action = fields.get("action", "")
    if action not in actions:
        raise BadInput(
            "ACTION_UNKNOWN",
            f"{action[:40]!r} is not an action of this page",
            state="nothing was changed",
            next_step=f"use one of {', '.join(actions)}",
            field="action",
        )
    return action


def number_of(fields: Form, field: str, kind: Callable[[str], N]) -> N | None:
    """Returns a number; None if the field is empty. Raises BadInput FORM_UNREADABLE."""
    text = fields.get(field, "")
    try:
        return kind(text) if text else None
    except ValueError:
        raise _unreadable() from None


def _unreadable() -> BadInput:
    return BadInput(
        "FORM_UNREADABLE",
        "this is not a form of this page",
        state="nothing was changed",
        next_step="use the page's buttons",
    )
