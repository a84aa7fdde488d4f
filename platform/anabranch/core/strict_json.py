"""JSON as its standard has it. Python's parser takes ``NaN`` and ``Infinity``, too, and has an error of its own for a
text that is nested too deeply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def strict_decoder(parse_float: Callable[[str], Any] | None = None) -> json.JSONDecoder:
    """A decoder that refuses what is no JSON number. ``parse_float``: makes a number with a point or an exponent."""
    return json.JSONDecoder(parse_constant=_no_constant, parse_float=parse_float)


_DECODER: Final = strict_decoder()


def loads(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value of a JSON text. Raises ValueError for any other text, and for one that is nested too deeply."""
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
