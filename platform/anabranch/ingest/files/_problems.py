"""What is wrong with rows, in the words of their format: each kind once, with its number."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.ingest.files._addresses import JSON_LINES

MOST: Final = 20
"""How many kinds are kept apart."""
OTHER: Final = "other problems: anabranch quarantine list names them"
_FIELD: Final = re.compile(r"\bdata\.([^\s,:;]+)")


def count_problems(rows: pa.Table, kind: str) -> Counter[str]:
    """The problems of the quarantined ``rows`` of a file of this format."""
    reasons = rows["reason"].drop_null()
    counted = Counter[str]()
    for row in pc.value_counts(reasons).to_pylist():
        counted[in_words(row["values"], kind)] += row["counts"]
    return counted


def merge(one: Counter[str], other: Counter[str]) -> Counter[str]:
    """Both together, with at most MOST kinds."""
    found = one + other
    if len(found) <= MOST:
        return found
    most = Counter(dict(Counter({k: n for k, n in found.items() if k != OTHER}).most_common(MOST - 1)))
    most[OTHER] = found.total() - most.total()
    return most


def in_words(reason: str, kind: str) -> str:
    """A reason of the quarantine, for a person who has the file: columns have names, lines have fields."""
    name = "field" if kind == JSON_LINES else "column"
    text = _FIELD.sub(lambda found: f"{name} {found[1]}", reason)
    text = text.removeprefix("contract: ").removeprefix("mapping: ")
    if text.startswith("not_json"):
        return "a line that is no JSON object" if kind == JSON_LINES else "a row that is no JSON object"
    return text.replace("envelope: ", f"{name} ") if text.startswith("envelope: ") else text
