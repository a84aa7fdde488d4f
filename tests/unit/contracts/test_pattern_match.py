"""Patterns of contracts are matched outside of Java as Python's ``re`` has them, and in bounded time."""

from __future__ import annotations

import time
from random import Random

import pytest
from anabranch.contracts import Contract, PlainJson, Record, Topic
from anabranch.contracts.fields.pattern_match import matcher
from anabranch.contracts.fields.patterns import check_pattern, python_pattern
from anabranch.contracts.sending import RecordCheck
from anabranch.core.errors import BadDefinition
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems

pytestmark = pytest.mark.unit
ATOMS = [
    *"ab1-_A ", "é", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", "[a-c]", "[^a]", r"[\s_]", r"[^\D1]", "(a|b)",
    "(?:ab)", "|", "^", "$", "(?=a)", "(?!a)", "(?!.*b)", "(?=.*1)", "(?<=a)", "(?<!b)", r"\1",
]  # fmt: skip
REPEATS = ["", "", "*", "+", "?", "{2}", "{1,2}", "*?", "+?"]
TEXTS = "ab1-_A é\n\u2028\u0660\u00a0\u0085\x0b"


def drawn(chance: Random) -> str:
    parts = [(atom, chance.choice(REPEATS)) for atom in chance.choices(ATOMS, k=chance.randint(1, 6))]
    return "".join(atom if atom.startswith(("(?=", "(?!", "(?<")) or atom in "^$|" else atom + n for atom, n in parts)


@pytest.mark.parametrize("seed", range(2))
def test_random_patterns_match_what_pythons_engine_matches(seed: int) -> None:
    chance, compared = Random(seed), 0
    while compared < 4_000:
        pattern = drawn(chance)
        try:
            check_pattern("x", pattern)
        except BadDefinition:
            continue
        for _ in range(10):
            text = "".join(chance.choices(TEXTS, k=chance.randint(0, 6)))
            assert matcher(pattern)(text) is (python_pattern(pattern).search(text) is not None), (pattern, text)
            compared += 1


SLOW = "a" * 40 + "!"


@pytest.mark.parametrize("pattern", ["^([a-z0-9]+)*$", r"^([a-z]+\.?)+@x$", "^(?!b)([a-z0-9]+)*$", "^(?=a)(a|aa|a+)+$"])
def test_a_text_that_takes_other_engines_a_day_is_decided_at_once(pattern: str) -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": pattern}}}
    contract = Contract("parcel.seen", 1, schema)
    check = RecordCheck(Topic("t", (contract,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)))
    begun = time.monotonic()
    assert check.problem(b'{"code": "%s"}' % SLOW.encode(), {"code": SLOW}) is not None
    list(contract_problems(contract, {"code": SLOW}))  # a reason, or none if it would take too long
    assert time.monotonic() - begun < 5


def test_half_of_a_surrogate_pair_gets_no_reason_of_a_pattern() -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^a$"}}}
    assert list(contract_problems(Contract("parcel.seen", 1, schema), {"code": "\ud800"})) == []
