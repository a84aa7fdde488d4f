"""Turn a search into boxes. A box is a conjunction: one interval for each field that it restricts. A search matches an
event that lies in at least one of its boxes.

``not`` is first pushed down to the single conditions. That is exact in SQL's three-valued logic too: a leaf is either
true or not, and a tree without ``not`` is never true where it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from anabranch.views.saved_searches._grammar import And, Condition, Expression, Not, Or, parse
from anabranch.views.saved_searches._intervals import Kind, Leaf, Span, leaf

MAX_BOXES: Final = 256
"""A search that needs more boxes is kept as a tree, which is evaluated for every event, a batch at a time."""

Pattern = tuple[str, str, bool]
"""Field, LIKE pattern, and whether it must not match."""


@dataclass(frozen=True, slots=True)
class AllOf:
    of: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    of: tuple[Tree, ...]


Tree = Leaf | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Box:
    """One span for each field that it restricts, and the patterns that spans can't express."""

    spans: Mapping[str, Span]
    patterns: frozenset[Pattern] = frozenset()


class _TooManyBoxesError(Exception):
    pass


def parse_search(text: str, fields: Mapping[str, Kind]) -> Tree:
    """The tree of a search, without ``not``. Raises BadInput SEARCH_REFUSED for an expression that isn't valid over
    ``fields``."""
    return _push_down_not(parse(text), fields, negated=False)


def _push_down_not(tree: Expression, fields: Mapping[str, Kind], *, negated: bool) -> Tree:
    match tree:
        case Not(inner):
            return _push_down_not(inner, fields, negated=not negated)
        case Condition():
            return leaf(tree, fields, negated=negated)
        case And(parts) | Or(parts):
            inner_trees = tuple(_push_down_not(part, fields, negated=negated) for part in parts)
            return AllOf(inner_trees) if isinstance(tree, And) != negated else AnyOf(inner_trees)


def boxes(tree: Tree, within: Box) -> list[Box] | None:
    """The non-empty boxes of ``tree`` inside ``within``; None when there are more than MAX_BOXES."""
    try:
        return _boxes(tree, [within])
    except _TooManyBoxesError:
        return None


def _boxes(tree: Tree, within: list[Box]) -> list[Box]:
    match tree:
        case Leaf():
            return _distinct(_intersect(box, tree, span) for box in within for span in tree.spans)
        case AllOf(parts):
            # The parts with the fewest spans go first, so that contradictions remove boxes early.
            for part in sorted(parts, key=_span_count):
                within = _boxes(part, within)
            return within
        case AnyOf(parts):
            return _distinct(box for part in parts for box in _boxes(part, within))


def _span_count(tree: Tree) -> int:
    return len(tree.spans) if isinstance(tree, Leaf) else 1 + sum(_span_count(part) for part in tree.of)


def _distinct(found: Iterable[Box | None]) -> list[Box]:
    kept: dict[tuple[frozenset[tuple[str, Span]], frozenset[Pattern]], Box] = {}
    for box in found:
        if box is not None:
            kept[frozenset(box.spans.items()), box.patterns] = box
            if len(kept) > MAX_BOXES:
                raise _TooManyBoxesError
    return list(kept.values())


def _intersect(box: Box, by: Leaf, span: Span) -> Box | None:
    if by.field in box.spans:
        own = box.spans[by.field]
        span = (max(own[0], span[0]), min(own[1], span[1]))
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
