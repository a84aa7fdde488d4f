"""Format a finding for people: the events, how they were sliced, the rows of both sides, the cells that differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.testing._counterexample import Finding, Side
from anabranch.testing._rows import Difference, Row, text
from anabranch.testing._scenario import Log

if TYPE_CHECKING:
    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View
    from anabranch.views.function_source import Source

_MOST_ROWS = 20
_WIDEST = 44


def report(found: Finding, view: View, topics: Sources, source: Source, drawn: int) -> str:
    """The sections that apply to the finding. ``drawn``: the number of events in the log before it was shrunk."""
    parts = [_events(found.log, topics, source, drawn), _slices(found)]
    parts += [_side(side) for side in (found.left, found.right) if side is not None]
    if found.differs:
        parts.append(_cells(found, view))
    return "\n\n".join(filter(None, parts))


def _events(log: Log, topics: Sources, source: Source, drawn: int) -> str:
    landed = log.landed(topics)
    named = _words_in(source)
    columns = ["epoch", "type", "event_time", "event_id", "decided"]
    named |= {"sent by"}
    named |= {"source"} if len({event.source for event in log.events}) > 1 else set()
    rows = []
    for row in landed:
        data = row.get(topics.newest(row["type"]).column) or {} if "type" in row else {}
        decided = row["decision"] + (", late" if row["late"] else "")
        envelope: dict[str, Any] = {
            name: row.get(name) for name in ("event_time", "event_id", "source", "subject") if name in row
        }
        envelope |= {"log_partition": row["partition"], "log_offset": row["offset"]}
        if "type" in row and len(topics.versions(row["type"])) > 1:
            envelope["sent by"] = f"v{row['contract_version']}"
        shown = {name: value for name, value in {**envelope, **data}.items() if name in {*columns, *named}}
        rows.append({"epoch": row["epoch"], "type": row.get("type"), "decided": decided, **shown})
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    title = f"events: {len(landed)} (of {drawn} that were drawn), with the fields that the view names"
    return f"{title}\n{table(rows, names)}"


def _words_in(source: Source) -> set[str]:
    """Every word in the view's code; the names of the columns that it uses are among them."""
    found: set[str] = set()
    for tree in source.trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set("".join(c if c.isalnum() or c == "_" else " " for c in node.value).split())
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return found


def _slices(found: Finding) -> str:
    steps, number = [], 0
    for step in found.log.steps:
        first, number = number + 1, number + len(step.epochs)
        epochs = f"epoch {first}" if first == number else f"epochs {first} to {number}"
        steps.append(f"  {epochs}: landed, the stream catches up; then {step.then}")
    if found.code.removeprefix("PROOF_") in ("SPEED", "STREAM", "BATCH", "REBUILD", "PATHS"):
        return "\n".join(["how they came", *steps])
    return ""


def _side(side: Side) -> str:
    rows = side.rows[:_MOST_ROWS]
    more = f"\n  ... and {len(side.rows) - len(rows)} more" if len(side.rows) > len(rows) else ""
    names = list(dict.fromkeys(c for row in rows for c in row))
    title = f"{side.name}: {len(side.rows) or 'no'} row{'s' if len(side.rows) != 1 else ''}"
    return f"{title}\n{table(rows, names)}{more}".rstrip()


def _cells(found: Finding, view: View) -> str:
    left, right = (side.name if side else "" for side in (found.left, found.right))
    lines = [line for each in found.differs[:_MOST_ROWS] for line in _differing(each, left, right)]
    more = len(found.differs) - _MOST_ROWS
    return "\n".join(["what differs", *lines, *([f"  ... and {more} more rows"] if more > 0 else [])])


def _differing(each: Difference, left: str, right: str) -> Iterator[str]:
    at = ", ".join(f"{name}={text(value)}" for name, value in each.key)
    if each.only:
        yield f"  {at}: a row of '{left if each.only == 'left' else right}' only"
    for column, one, other in each.cells:
        yield f"  {at}: {column} is {text(one)} and {text(other)}"


def table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Formats rows as aligned text; long values are truncated with "..."."""
    if not rows:
        return ""
    cells = [list(names), *([_short(row.get(name)) if name in row else "" for name in names] for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(names))]
    return "\n".join("  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)


def _short(value: Any) -> str:
    shown = text(value)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."
