"""Renders landing's proofs and the quarantine as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.table import Table

from anabranch.core.terminal_text import cell
from anabranch.ingest.landing.quarantine import Quarantined
from anabranch.ingest.landing.verify import Proof

COUNTED: Final = {
    "valid": "valid",
    "quarantined": "quarantined",
    "duplicates": "duplicates",
    "holes": "no record",
    "late": "late",
    "lag": "not yet landed",
}
"""Counts of a PartitionProof, with the titles of their columns."""
NAMED: Final = 10
"""How many ranges of offsets without a record are listed."""


def proof_table(proof: Proof) -> Table:
    """One line per partition: the log, what was landed by decision, and what is wrong."""
    holes = sum(p.holes for p in proof.partitions)
    but = f", {holes:,} proven to hold no record" if holes else ""
    verdict = f"[green]gap-free: every offset landed exactly once{but}" if proof.sound else "[red]NOT sound"
    table = Table(title=f"{proof.topic} at epoch {proof.epoch}: {verdict}", title_justify="left")
    for name in ("partition", "log", "landed", *COUNTED.values()):
        table.add_column(name, justify="right")
    table.add_column("wrong", style="red")
    for p in proof.partitions:
        counts = [getattr(p, count) for count in COUNTED]
        ranges = (f"{p.log_begin:,}..{p.log_end:,}", f"{p.first:,}..{p.landed_to:,}")
        table.add_row(str(p.partition), *ranges, *(f"{n:,}" for n in counts), "; ".join(p.wrong))
    totals = [sum(getattr(p, count) for p in proof.partitions) for count in COUNTED]
    table.add_section()
    table.add_row("all", "", f"{sum(totals[:3]):,}", *(f"{n:,}" for n in totals), "")
    notes = [f"accepted as lost: {x['partition']}: {x['from']}..{x['to'] - 1}" for x in proof.accepted_losses]
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


def quarantine_table(topic: str, records: Sequence[Quarantined], limit: int) -> Table:
    """One line per record, the reasons counted in the title. Nothing of a record is interpreted as markup."""
    reasons = {r.reason.split(":", 1)[0] for r in records}
    title = f"{topic}: {len(records):,} in quarantine ({cell(', '.join(sorted(reasons))) or 'nothing'})"
    table = Table(title=title, title_justify="left")
    for name in ("partition:offset", "epoch", "appended", "type", "reason"):
        table.add_column(name)
    for r in records[:limit]:
        appended = r.append_time.isoformat(timespec="seconds")
        table.add_row(f"{r.partition}:{r.offset}", str(r.epoch), appended, cell(r.type or ""), cell(r.reason))
    return table
