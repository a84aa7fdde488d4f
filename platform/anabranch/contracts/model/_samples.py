"""Reads sample records: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from anabranch.contracts.fields.decimals import WrittenFloat
from anabranch.contracts.model.contract import EVENT_TYPE
from anabranch.core.errors import BadInput
from anabranch.core.text import strict_json

_DECODER: Final = strict_json.strict_decoder(WrittenFloat)


def check_name(name: str) -> None:
    """Raises BadInput CONTRACT_NAME if it is no event type."""
    if not EVENT_TYPE.fullmatch(name):
        raise BadInput("CONTRACT_NAME", f"{name!r} is no event type", next_step="write it like payment.made")


def _record(number: int, line: str) -> dict[str, Any]:
    try:
        content = strict_json.loads(line, _DECODER)
    except ValueError as error:
        raise BadInput("SAMPLE", f"line {number} is not JSON: {error}", next_step="one JSON object a line") from None
    if not isinstance(content, dict):
        raise BadInput("SAMPLE", f"line {number} is no JSON object", next_step="one JSON object a line")
    return content


def read_records(lines: Iterable[str], *, broken: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """The records, and what is to be said about the others, if these may be anything (``broken``). Raises BadInput
    SAMPLE, which names the line."""
    found, unread = list[dict[str, Any]](), 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_record(number, line))
            except BadInput:
                if not broken:
                    raise
                unread += 1
    if not found:
        raise BadInput("SAMPLE", "there is no record in the sample", next_step="give some, one JSON object a line")
    return found, [f"{unread:,} of {len(found) + unread:,} records are no JSON object: left out"] * bool(unread)
