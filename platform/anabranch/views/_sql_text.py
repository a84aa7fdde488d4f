"""Read the text of a view that is written in SQL, without Spark: its tokens, and whether it is a single query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>--(?:\\\n|[^\n])*)
      | (?P<long>/\*(?!\+))
      | (?P<text>[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<word>[\w.$]+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_LONG: Final = re.compile(r"/\*|\*/")
QUERIES: Final = ("select", "with", "from", "table", "values")
"""The words that a query begins with."""
_TIME_TYPES: Final = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")
_RELATIVE: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a literal, a quoted name or a sign. ``line``: counted from 1."""

    text: str
    line: int
    kind: str


def tokens(sql: str) -> list[Token]:
    """The tokens without white space and comments. A hint (``/*+ ... */``) is no comment."""
    return list(_tokens(sql))


def _tokens(sql: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None  # noqa: S101 - the last alternative matches any character
        kind = found.lastgroup or ""
        if kind not in ("space", "comment", "long"):
            yield Token(found[0], sql.count("\n", 0, at) + 1, kind)
        at = _end_of_comment(sql, found.end()) if kind == "long" else found.end()


def _end_of_comment(sql: str, at: int) -> int:
    """Where the comment ends that begins before ``at``; comments can be nested."""
    depth = 1
    for found in _LONG.finditer(sql, at):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    return len(sql)


def normalised(sql: str) -> str:
    """The query as one line: white space, comments and a semicolon at its end don't change it."""
    found = [token.text for token in tokens(sql)]
    while found and found[-1] == ";":
        found.pop()
    return " ".join(found)


def problem(sql: str) -> tuple[str, int] | None:
    """Why the text is not exactly one query, with the line; None if it may be one (Spark's parser decides)."""
    found = tokens(sql)
    if not found:
        return "there is no query", 1
    end = next((n for n, token in enumerate(found) if token.text == ";"), len(found))
    second = next((token for token in found[end:] if token.text != ";"), None)
    if second is not None:
        return "there is more than one statement", second.line
    for token, after in zip(found, [*found[1:], found[-1]], strict=True):
        if "${" in token.text or (token.text.endswith("$") and after.text == "{"):
            return "${...} takes a value from the session", token.line
    first = next((token for token in found if token.text != "("), found[0])
    if first.text.lower() not in QUERIES:
        return f"{first.text.upper()} is not a query", first.line
    return None


def relative_time(sql: str) -> tuple[str, int] | None:
    """A literal such as ``DATE 'today'``, with its line. Spark's parser makes it a constant of the day on which it
    parses, so nothing in the plan shows it."""
    found = tokens(sql)
    for token, after in pairwise(found):
        if after.kind == "text" and token.text.lower() in _TIME_TYPES and _RELATIVE.match(_value(after.text)):
            return f"{token.text} {after.text}", token.line
    return None


def _value(text: str) -> str:
    return text.lstrip("rR")[1:-1]


def calls(sql: str) -> list[tuple[str, int, Sequence[str]]]:
    """Each function call: its name, its line, and the words and texts inside its parentheses."""
    found = tokens(sql)
    return [
        (token.text, token.line, _inside(found, n + 2))
        for n, (token, after) in enumerate(pairwise(found))
        if token.kind == "word" and after.text == "("
    ]


def _inside(found: Sequence[Token], start: int) -> list[str]:
    depth, words = 1, list[str]()
    for token in found[start:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
        if not depth:
            break
        if token.kind != "sign":
            words.append(token.text.strip("'\"`").split(".")[-1])
    return words
