"""Landing's proofs and quarantine as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from anabranch.landing.quarantine import Quarantined
from anabranch.landing.verify import Proof
from anabranch.printable import cell


def proof_table(proof: Proof) -> Table:
    """One line per partition: the log, what was landed as what, and what is wrong."""
    verdict = "[green]gap-free: every offset landed exactly once" if proof.sound else "[red]NOT sound"
    table = Table(title=f"{proof.topic} at epoch {proof.epoch}: {verdict}", title_justify="left")
    for name in ("partition", "log", "landed", "valid", "quarantined", "duplicates", "late", "not yet landed"):
        table.add_column(name, justify="right")
    table.add_column("wrong", style="red")
    for p in proof.partitions:
        counts = (p.valid, p.quarantined, p.duplicates, p.late, p.lag)
        ranges = (f"{p.log_begin:,}..{p.log_end:,}", f"{p.first:,}..{p.landed_to:,}")
        table.add_row(str(p.partition), *ranges, *(f"{n:,}" for n in counts), "; ".join(p.wrong))
    totals = [
        sum(getattr(p, n) for p in proof.partitions) for n in ("valid", "quarantined", "duplicates", "late", "lag")
    ]
    table.add_section()
    table.add_row("all", "", f"{sum(totals[:3]):,}", *(f"{n:,}" for n in totals), "")
    notes = [f"accepted as lost: {x['partition']}: {x['from']}..{x['to'] - 1}" for x in proof.accepted_losses]
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
