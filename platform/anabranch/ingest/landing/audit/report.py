"""Renders landing's proofs and the quarantine as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Final

from rich.table import Table
from rich.text import Text

from anabranch.core.text.terminal_text import cell
from anabranch.ingest.landing.audit.quarantine import Quarantined, QuarantinedKind
from anabranch.ingest.landing.audit.verify import FileProof, Proof

COUNTED: Final = {
    "valid": "valid",
    "quarantined": "quarantined",
    "duplicates": "duplicates",
    "tombstones": "tombstones",
    "holes": "no record",
    "late": "late",
    "lag": "not yet landed",
}
"""Counts of a PartitionProof, with the titles of their columns."""
DECISIONS: Final = ("valid", "quarantined", "duplicates", "tombstones")
"""The counts of which each landed record is in one."""
_ALWAYS: Final = frozenset({"valid", "quarantined", "duplicates"})
"""Counts with a column of their own even if they are 0 everywhere. The others would only make the table wider."""
NAMED: Final = 10
"""How many ranges of offsets without a record are listed."""


def proof_table(proof: Proof) -> Table:
    """One line per partition: the log, what was landed by decision, and what is wrong."""
    holes = sum(p.holes for p in proof.partitions)
    but = f", {holes:,} proven to hold no record" if holes else ""
    verdict = f"[green]gap-free: every offset landed exactly once{but}" if proof.sound else "[red]NOT sound"
    if proof.sound and not any(p.landed_to > p.first for p in proof.partitions):
        waiting = sum(p.lag + p.undecided for p in proof.partitions)
        verdict = f"[yellow]nothing has landed yet, {waiting:,} offsets wait" if waiting else "the topic is empty"
    title = Text.from_markup(f"{proof.topic} at epoch {proof.epoch}: {verdict}")
    title.no_wrap, title.overflow = True, "ignore"  # it is often wider than the table
    table = Table(title=title, title_justify="left", caption_justify="left", box=None, pad_edge=False)
    totals = {count: sum(getattr(p, count) for p in proof.partitions) for count in COUNTED}
    shown = [count for count in COUNTED if totals[count] or count in _ALWAYS]
    for name in ("partition", "log", "landed", *(COUNTED[count] for count in shown)):
        table.add_column(name, justify="right")
    wrong = any(p.wrong for p in proof.partitions)
    if wrong:
        table.add_column("wrong", style="red", overflow="fold")
    for p in proof.partitions:
        ranges = (f"{p.log_begin:,}..{p.log_end:,}", f"{p.first:,}..{p.landed_to:,}")
        counts = (f"{getattr(p, count):,}" for count in shown)
        table.add_row(str(p.partition), *ranges, *counts, *(["; ".join(p.wrong)] if wrong else []))
    landed = sum(totals[decision] for decision in DECISIONS)
    table.add_row("all", "", f"{landed:,}", *(f"{totals[count]:,}" for count in shown))
    notes = [_file_line(file) for file in proof.files]
    notes += [f"accepted as lost: {x['partition']}: {x['from']}..{x['to'] - 1}" for x in proof.accepted_losses]
    without = [f"{p}: {first}..{until - 1}" for p, each in proof.holes.items() for first, until in each]
    if without:
        more = f" and {len(without) - NAMED:,} ranges more (--json names all)" if len(without) > NAMED else ""
        notes.append(f"no record at {', '.join(without[:NAMED])}{more}")
    if undecided := sum(p.undecided for p in proof.partitions):
        notes.append(f"{undecided:,} offsets can't be read yet: a transaction is open")
    if proof.doubled:
        notes.append(f"[red]{proof.doubled:,} copies of events were landed as events of their own")
    table.caption = "\n".join(notes) or None
    return table


def place(partition: int, offset: int) -> str:
    """A record's coordinates: ``2:1733``, or ``file2:1733`` for a row of a loaded file."""
    return f"{partition}:{offset}" if partition >= 0 else f"file{-partition}:{offset}"


def _file_line(file: FileProof) -> str:
    """What has landed of a loaded file, in one line. Its name is the user's: it isn't interpreted as markup."""
    counts = {"loaded": file.loaded, "quarantined": file.quarantined, "duplicates": file.duplicates}
    by_decision = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "loaded")
    text = f"file {file.number}, {cell(file.name)}: {file.landed:,} rows, {by_decision}"
    if not file.finished:
        text += f"; [yellow]not finished{f', of {file.rows:,} rows' if file.rows else ''}[/]"
    return text + "".join(f"; [red]{what}[/]" for what in file.wrong)


def kinds_table(topic: str, kinds: Sequence[QuarantinedKind]) -> Table:
    """One line per kind of reason and type, the most frequent first, with the newest reason as an example."""
    total = sum(each.records for each in kinds)
    table = Table(title=f"{topic}: {total:,} in quarantine", title_justify="left")
    table.add_column("records", justify="right")
    for name in ("kind", "type", "epochs", "the newest, at", "its reason"):
        table.add_column(name, overflow="fold" if name == "its reason" else "ellipsis")
    for each in sorted(kinds, key=lambda each: (-each.records, each.newest.kind, each.newest.type or "")):
        first, newest = each.first_epoch, each.newest
        epochs = f"{first}" if first == newest.epoch else f"{first} to {newest.epoch}"
        at = place(newest.partition, newest.offset)
        table.add_row(f"{each.records:,}", cell(newest.kind), cell(newest.type or ""), epochs, at, cell(newest.reason))
    return table


def quarantine_table(topic: str, records: Sequence[Quarantined], limit: int) -> Table:
    """One line per record. Nothing of a record is interpreted as markup."""
    shown = f"; the first {limit:,}" if len(records) > limit else ""
    table = Table(title=f"{topic}: {len(records):,} in quarantine{shown}", title_justify="left")
    for name in ("partition:offset", "epoch", "appended (UTC)", "type", "reason"):
        table.add_column(name, overflow="fold" if name == "reason" else "ellipsis")
    for r in records[:limit]:
        appended = f"{r.append_time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        table.add_row(place(r.partition, r.offset), str(r.epoch), appended, cell(r.type or ""), cell(r.reason))
    return table
