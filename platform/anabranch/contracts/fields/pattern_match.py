"""Matches texts with the patterns of contracts outside of Java, in bounded time.

Where nothing needs backtracking, the linear engine of ``jsonschema_rs`` does it. Its other one (fancy-regex) is wrong
with ``X+ Y? X+``, which takes a single X, and Python's ``re`` needs a day for 40 letters and ``^([a-z]+)*$``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from anabranch.contracts.fields.patterns import needs_backtracking, python_pattern, validator_pattern
from anabranch.core.errors import BadDefinition

SIZE_LIMIT: Final = 2**26
"""Bytes of a compiled pattern. ``.{1,9999}`` needs some 15 million, and the default is 10."""
_SECONDS: Final = 0.1
_NAME: Final = "text that matches "
Matches = Callable[[str], bool]


@lru_cache(maxsize=512)
def matcher(pattern: str) -> Matches:
    """Whether a text has the pattern. Raises BadDefinition CONTRACT_SCHEMA if it is too large; what is returned raises
    TimeoutError, and UnicodeEncodeError for half of a surrogate pair."""
    if needs_backtracking(pattern):
        import regex

        compiled = regex.compile(python_pattern(pattern).pattern, regex.ASCII)
        return lambda text: compiled.search(text, timeout=_SECONDS) is not None
    import jsonschema_rs

    try:
        linear = jsonschema_rs.RegexOptions(size_limit=SIZE_LIMIT)
        return jsonschema_rs.Draft4Validator({"pattern": validator_pattern(pattern)}, pattern_options=linear).is_valid
    except jsonschema_rs.ValidationError:
        raise too_large(pattern) from None


def restriction(pattern: str) -> dict[str, Any]:
    """The keyword by which ``jsonschema_rs`` checks the pattern, with ``formats_in`` the schema."""
    return {"format": f"{_NAME}{pattern}"} if needs_backtracking(pattern) else {"pattern": validator_pattern(pattern)}


def formats_in(schema: Any) -> dict[str, Matches]:
    """The formats that ``restriction`` has put into a schema."""
    if isinstance(schema, list):
        return _merged(map(formats_in, schema))
    if not isinstance(schema, dict):
        return {}
    found = _merged(map(formats_in, schema.values()))
    if isinstance(name := schema.get("format"), str) and name.startswith(_NAME):
        found[name] = _in_time(name.removeprefix(_NAME))
    return found


def _merged(formats: Iterable[dict[str, Matches]]) -> dict[str, Matches]:
    return {name: check for each in formats for name, check in each.items()}


def _in_time(pattern: str) -> Matches:
    found = matcher(pattern)

    def matches(text: str) -> bool:
        try:
            return found(text)
        except TimeoutError:  # landing decides; here it isn't sent
            return False

    return matches


def too_large(pattern: str) -> BadDefinition:
    """The error for a pattern that Java reads, and the linear engine doesn't."""
    return BadDefinition(
        "CONTRACT_SCHEMA",
        f"pattern {pattern[:200]!r} is too large to check records before they are sent",
        state="nothing was sent; landing checks records by it all the same",
        next_step="write a new version of the contract with fewer repetitions inside of repetitions",
    )
