"""Patterns that all engines must read alike, each with texts on which they would differ if they were given it as it
is."""

from __future__ import annotations

_BLANKS = ["", " ", "\t", "\x0b", "\x1c", "\u00a0", "\u2003", "\ufeff", "a", "\n"]
_LINES = ["a", "\n", "\r", "\u0085", "\u2028", "\u2029", "\x0b", "a\n"]
_DIGITS = ["1", "a", "\u0663", "é", "_", "1\n"]

PORTABLE = {
    "": ["", "a"],
    "^[A-Z]{3}$": ["JFK", "JFK\n", "jfk"],
    "a$|b$": ["a", "a\n", "b", "b\r", "c"],
    r"^\d$": _DIGITS,
    r"^\D$": _DIGITS,
    r"^\w$": _DIGITS,
    r"^[\W]$": _DIGITS,
    r"^[^\w]$": _DIGITS,
    r"^\s$": _BLANKS,
    r"^\S$": _BLANKS,
    r"^[\sa]$": _BLANKS,
    r"^[\S\n]$": _BLANKS,
    r"^[^\S]$": _BLANKS,
    r"^[\s\S]*$": [*_BLANKS, "a\nb"],
    "^.$": _LINES,
    "^(?!x).{1,2}$": [*_LINES, "xa", "ax"],
    r"^(a|b)\1$": ["aa", "ab", "bb"],
    "(?<=a)b": ["ab", "cb"],
    r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$": ["a.b@c.de", "a@b"],
    r"^\u0041\x42\t$": ["AB\t", "AB"],
    "^[à-ü]$": ["é", "e"],
    r"^\{\}\[\]\(\)\\\/\ \-$": ["{}[]()\\/ -", "{}"],
    r"^[\]\[^-]$": ["]", "[", "^", "-", "a"],
    "^[^^]$": ["a", "^"],
    "^(?:a|b)?c*?$": ["", "a", "acc", "ad"],
    r"^a\\$": ["a\\", "a\\\n"],
    r"^\$[$.]$": ["$$", "$.", "$a", "$.\n"],
    r"^(?!0)\d{2}$": ["12", "02", "\u0661\u0662", "1\n"],
    r"^(?=.)\w$": _DIGITS,
    r"^(.)\1\w+$": ["aaa", "aa\u0663", "aaé", "aba"],
    r"^(?!a)[\w]$": _DIGITS,
    r"^[0-9]+\.?[0-9]+$": ["5", "55", "5.5", "5."],
    "^[a-z]+-?[a-z]+@x$": ["a@x", "a-b@x", "ab@x"],
    "^[A-Z]+[0-9]*[A-Z]+$": ["A", "AA", "A1A"],
    "^(?!.*[0-9]+-?[0-9]+$)[a-z0-9]+$": ["a5", "a55", "a"],
    "^\U0001f6eb{2}$": ["\U0001f6eb\U0001f6eb", "\U0001f6eb"],
}
