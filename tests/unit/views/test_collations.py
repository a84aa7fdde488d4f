"""Collations that take unequal texts for equal. (``tests/spark/views/test_definition_errors.py`` asks Spark.)"""

from __future__ import annotations

import pytest
from anabranch.views._collations import loose_collation

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("type_text", "collation"),
    [
        ("STRING", ""),
        ("string", ""),
        ("STRING COLLATE UTF8_BINARY", ""),
        ("STRING COLLATE UNICODE", ""),
        ("BIGINT", ""),
        ("STRUCT<collate: STRING NOT NULL, n: BIGINT>", ""),
        ("STRING COLLATE UTF8_LCASE", "UTF8_LCASE"),
        ("string collate UTF8_LCASE", "UTF8_LCASE"),
        ("STRING COLLATE UTF8_BINARY_RTRIM", "UTF8_BINARY_RTRIM"),
        ("STRING COLLATE de_CI_AI", "de_CI_AI"),
        ("VARCHAR(3) COLLATE UNICODE_CI", "UNICODE_CI"),
        ("STRUCT<a: STRING COLLATE UNICODE, b: ARRAY<STRING COLLATE UNICODE_AI>>", "UNICODE_AI"),
        ("map<string,array<string collate UTF8_LCASE>>", "UTF8_LCASE"),
    ],
)
def test_a_collation_is_found_wherever_it_is_in_a_type(type_text: str, collation: str) -> None:
    assert loose_collation(type_text) == collation
