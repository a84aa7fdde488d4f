"""A search as boxes: each says for some fields between which cuts their values lie. It matches what is in one of them.

``not`` is moved inwards first, down to the single conditions. There it is exact in SQL's three-valued logic too:
a leaf is true or not, and of the trees without ``not`` an unknown one is never true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from anabranch.views.saved_searches.grammar import All, Condition, Either, Expression, Not, parse
from anabranch.views.saved_searches.intervals import Kind, Leaf, Span, leaf

MAX_BOXES: Final = 256
"""A search that needs more is kept as its tree, and looked at for every event, a batch at a time."""

Pattern = tuple[str, str, bool]
"""Field, pattern of LIKE, and whether it must not match."""


@dataclass(frozen=True, slots=True)
class Both:
    of: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Any_:  # noqa: N801 - typing.Any is another thing
    of: tuple[Tree, ...]


Tree = Leaf | Both | Any_


@dataclass(frozen=True, slots=True)
class Box:
    """One span for each field that it bounds, and the patterns that the spans don't say."""

    spans: Mapping[str, Span]
    patterns: frozenset[Pattern] = frozenset()


class _TooMany(Exception):
    pass


def understood(text: str, fields: Mapping[str, Kind]) -> Tree:
    """The tree of a search without ``not``; BadInput SEARCH_REFUSED when it isn't one over ``fields``."""
    return _inwards(parse(text), fields, negated=False)


def _inwards(tree: Expression, fields: Mapping[str, Kind], *, negated: bool) -> Tree:
    match tree:
        case Not(inner):
            return _inwards(inner, fields, negated=not negated)
        case Condition():
            return leaf(tree, fields, negated=negated)
        case All(parts) | Either(parts):
            inner_trees = tuple(_inwards(part, fields, negated=negated) for part in parts)
            return Both(inner_trees) if isinstance(tree, All) != negated else Any_(inner_trees)


def boxes(tree: Tree, within: Box) -> list[Box] | None:
    """The boxes of ``tree`` inside of ``within``, none of them empty; None when there are more than MAX_BOXES."""
    try:
        return _boxes(tree, [within])
    except _TooMany:
        return None


def _boxes(tree: Tree, around: list[Box]) -> list[Box]:
    match tree:
        case Leaf():
            return _few(_cut(box, tree, span) for box in around for span in tree.spans)
        case Both(parts):
            # The parts that split least go first, so that what contradicts them is cut away early.
            for part in sorted(parts, key=_splits):
                around = _boxes(part, around)
            return around
        case Any_(parts):
            return _few(box for part in parts for box in _boxes(part, around))


def _splits(tree: Tree) -> int:
    return len(tree.spans) if isinstance(tree, Leaf) else 1 + sum(_splits(part) for part in tree.of)


def _few(found: Iterable[Box | None]) -> list[Box]:
    kept: dict[tuple[frozenset[tuple[str, Span]], frozenset[Pattern]], Box] = {}
    for box in found:
        if box is not None:
            kept[frozenset(box.spans.items()), box.patterns] = box
            if len(kept) > MAX_BOXES:
                raise _TooMany
    return list(kept.values())


def _cut(box: Box, by: Leaf, span: Span) -> Box | None:
    if by.field in box.spans:
        ours = box.spans[by.field]
        span = (max(ours[0], span[0]), min(ours[1], span[1]))
        if span[0] >= span[1]:
            return None
    patterns = box.patterns | {(by.field, by.pattern, by.negated)} if by.pattern else box.patterns
    return Box({**box.spans, by.field: span}, patterns)


def leaves(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        for part in tree.of:
            yield from leaves(part)
