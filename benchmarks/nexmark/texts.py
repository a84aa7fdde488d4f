"""Random texts by the hundred thousand: pieces of one long random text, so that a text costs a slice."""

from __future__ import annotations

import numpy as np
import polars as pl

Random = np.random.Generator
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

_LENGTH = 1 << 20
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)


def words(random: Random, count: int, longest: int, between: str = " ") -> pl.Series:
    """``count`` texts of 3 to ``longest`` letters, one place in 13 of which is ``between``."""
    return _pieces(random, random.integers(3, longest, count), _text(random, between)).str.strip_chars()


def padding(random: Random, sizes: Numbers, mean: int) -> pl.Series:
    """Letters that bring events of these ``sizes`` (bytes) to ``mean``, give or take a fifth; none where it is more."""
    missing = np.maximum(mean - sizes, 0)
    spread = np.rint(missing * 0.2).astype(np.int64)
    return _pieces(random, missing - spread + random.integers(0, np.maximum(2 * spread, 1)), _text(random))


def picked(random: Random, count: int, choices: tuple[str, ...]) -> pl.Series:
    return pl.Series(choices).gather(random.integers(0, len(choices), count))


def _text(random: Random, between: str = "") -> str:
    letters = random.choice(_LETTERS, _LENGTH)
    if between:
        letters[random.integers(0, 13, _LENGTH) == 0] = ord(between)
    return letters.tobytes().decode()


def _pieces(random: Random, lengths: Numbers, text: str) -> pl.Series:
    begins = random.integers(0, len(text) - int(lengths.max(initial=0)), lengths.size)
    ends = begins + lengths
    return pl.Series([text[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)], dtype=pl.String)
