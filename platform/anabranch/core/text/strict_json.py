"""JSON as its standard has it. Python's parser takes ``NaN`` and ``Infinity``, too, and has an error of its own for a
text that is nested too deeply."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

SPACE: Final = " \t\r\n"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


class JsonObject(dict[str, Any]):
    """A JSON object. Of a name that comes twice the last value counts, and ``repeated`` holds the name."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: tuple[str, ...] = _repeated([name for name, _ in pairs])


def _repeated(names: Sequence[str]) -> tuple[str, ...]:
    # In a text column half of a surrogate pair is a question mark: two such names can be one there.
    stored = [name if name.isascii() else name.encode(errors="replace").decode() for name in names]
    if len(set(stored)) == len(stored):
        return ()
    return tuple(name for name, count in Counter(stored).items() if count > 1)


def strict_decoder(
    parse_float: Callable[[str], Any] | None = None,
    object_pairs_hook: Callable[[Sequence[tuple[str, Any]]], Any] | None = None,
) -> json.JSONDecoder:
    """A decoder that refuses what is no JSON number. ``parse_float``: makes a number with a point or an exponent;
    ``object_pairs_hook``: an object."""
    return json.JSONDecoder(parse_constant=_no_constant, parse_float=parse_float, object_pairs_hook=object_pairs_hook)


_DECODER: Final = strict_decoder()


def loads(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value of a JSON text. Raises ValueError for any other text, and for one that is nested too deeply."""
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def with_fields(text: str, more: Mapping[str, Any]) -> str:
    """The text of a JSON object, with more fields in front; the characters of its own ones stay."""
    if not more:
        return text
    front = json.dumps(dict(more), separators=(",", ":"), ensure_ascii=False)[1:-1]
    rest = text[1:].lstrip(SPACE)
    return f"{{{front}{'' if rest.startswith('}') else ','}{rest}"
