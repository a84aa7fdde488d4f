"""Patterns of contracts: regular expressions that Java (Spark), Python and the JSON Schema validator read alike.

Allowed: characters, ``.``, ``^``, ``$``, classes like ``[A-Z_]``, ``\\d \\w \\s`` and their opposites, alternatives,
groups without names, lookaround, and quantifiers up to 9999. ``\\d``, ``\\w`` and ``\\s`` are ASCII, ``.`` is any
character but a line break, and ``$`` is the end of the text. Java decides; the others are given what it means
(``pattern_match``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from anabranch.core.errors import BadDefinition

_ONE: Final = r"\\(?:[tnrf]|x[0-9A-Fa-f]{2}|u(?![dD][89a-fA-F])[0-9A-Fa-f]{4}|[ -/:;=?@\[-`{-~])"
_MEMBER: Final = rf"(?:{_ONE}|[^\[\]\\\-\ud800-\udfff])"
_CLASS: Final = rf"\[(?!\^?\])\^?-?(?:\\[dDwWsS]|{_MEMBER}-{_MEMBER}|{_MEMBER})*-?\]"
_TOKEN: Final = re.compile(
    rf"(?P<class>{_CLASS})"
    r"|(?P<known>\\[dDwWsS])"
    r"|(?P<group>\\[1-9](?![0-9]))"
    rf"|(?P<one>{_ONE})"
    r"|(?P<look>\(\?(?:=|!|<=|<!))"
    r"|(?P<open>\(\?:|\((?!\?))"
    r"|(?P<close>\))"
    r"|(?P<repeat>(?:[*+?]|\{[0-9]{1,4}(?:,(?:[0-9]{1,4})?)?\})\??(?![*+?{]))"
    r"|(?P<mark>[.^$|])"
    r"|(?P<text>[^\\\[\](){}*+?.^$|\ud800-\udfff])"
)
_OPERATORS: Final = re.compile(r"&&|\|\||~~|--")
_ANY: Final = r"[^\n\r\u0085\u2028\u2029]"
_SPACES: Final = r" \t\n\r\f\x0b"
_OTHERS: Final = "\\x00-\\x08\\x0e-\\x1f!-\U0010ffff"
_JAVA: Final = {"$": r"\z"}
_PYTHON: Final = {"$": r"\Z", ".": _ANY}
_VALIDATOR: Final = {".": _ANY, r"\s": f"[{_SPACES}]", r"\S": f"[^{_SPACES}]"}
_IN_CLASSES: Final = {r"\s": _SPACES, r"\S": _OTHERS}


def check_pattern(path: str, pattern: Any) -> None:
    """Raises BadDefinition CONTRACT_SCHEMA for a pattern that an engine can't read, or reads in another way."""
    if why := _problem(pattern):
        raise BadDefinition(
            "CONTRACT_SCHEMA",
            f"{path}: pattern {pattern!r}: {why}",
            next_step="write it with classes like [A-Z], groups without names and escaped signs, or check it in a view",
        )


def java_pattern(pattern: str) -> str:
    """For Java, whose ``$`` also matches before a final line break."""
    return _translated(pattern, _JAVA, {})


@lru_cache(maxsize=512)
def python_pattern(pattern: str) -> re.Pattern[str]:
    """For Python, whose ``$`` does too, and whose classes aren't ASCII."""
    return re.compile(_translated(pattern, _PYTHON, {}), re.ASCII)


def needs_backtracking(pattern: str) -> bool:
    """Whether it has lookaround, or refers to a group: engines that are never slow can't read it."""
    return any(token.lastgroup in ("look", "group") for token in _tokens(pattern))


def validator_pattern(pattern: str) -> str:
    """For the validator of JSON Schema, whose blanks include those of Unicode."""
    return _translated(pattern, _VALIDATOR, _IN_CLASSES)


def _problem(pattern: Any) -> str:
    if not isinstance(pattern, str):
        return "it is no text"
    if why := _unlike(pattern):
        return why
    try:
        python_pattern(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"it is no regular expression: {error}"
    return ""


def _unlike(pattern: str) -> str:
    """What engines read in different ways."""
    looks, place, before = list[bool](), 0, ""
    for token in _tokens(pattern):
        kind, text = str(token.lastgroup), token[0]
        if kind == "class" and (found := _OPERATORS.search(text)):
            return f"{found[0]} in a class, which engines read in different ways"
        if kind in ("look", "open"):
            looks.append(kind == "look")
        if kind == "repeat" and before == "look":
            return f"{text} behind a lookaround"
        before = kind
        if kind == "close" and looks and looks.pop():
            before = "look"
        place = token.end()
    if place < len(pattern):
        return f"engines read {pattern[place : place + 8]!r} in different ways, or not at all"
    return ""


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    """The parts of a pattern, up to the first that isn't allowed."""
    place = 0
    while found := _TOKEN.match(pattern, place):
        yield found
        place = found.end()


def _translated(pattern: str, outside: Mapping[str, str], in_classes: Mapping[str, str]) -> str:
    parts = []
    for token in _tokens(pattern):
        if token.lastgroup == "class":
            parts.append(re.sub(r"\\.", lambda found: in_classes.get(found[0], found[0]), token[0]))
        else:
            parts.append(outside.get(token[0], token[0]))
    return "".join(parts)
