"""``anabranch landing``: proves that every record landed once, and accepts losses of the log."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from anabranch.apps.cli._context import project
from anabranch.apps.cli._tables import print_whole

TopicName = Annotated[str | None, typer.Argument(help="A topic; default: all declared topics.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

commands = typer.Typer(no_args_is_help=True, help="Landing: prove completeness, list conflicts, accept losses.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="landing")


@commands.command("verify")
def verify_command(topic: TopicName = None, as_json: AsJson = False) -> None:
    """Prove that every offset of the log is in landing or quarantine exactly once. Exit code 1 if not."""
    from anabranch.ingest.landing.audit.report import proof_table
    from anabranch.ingest.landing.audit.verify import verify

    settings, declared = project()
    chosen = list(declared.topics.values()) if topic is None else [declared.topic(topic)]
    proofs = [verify(settings, t) for t in chosen]
    if as_json:
        typer.echo(json.dumps([p.to_json() for p in proofs]))
    else:
        for proof in proofs:
            print_whole(proof_table(proof))
    if not all(p.sound for p in proofs):
        raise typer.Exit(1)


@commands.command("conflicts")
def conflicts_command(topic: TopicName = None, as_json: AsJson = False) -> None:
    """List duplicates whose payload differs from the record that landed first. Exit code 1 if there are any."""
    from anabranch.core.text.terminal_text import printable
    from anabranch.ingest.landing.audit.verify import conflicts

    settings, declared = project()
    chosen = list(declared.topics.values()) if topic is None else [declared.topic(topic)]
    found = [{"topic": t.name, **row} for t in chosen for row in conflicts(settings, t)]
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for row in found:
            first = f"{row['topic']}/{row['first_partition']}:{row['first_offset']}"
            event = printable(row["event_id"])
            typer.echo(f"{row['topic']}/{row['partition']}:{row['offset']}  {event}  differs from {first}")
        typer.echo(f"{len(found)} conflicts")
    if found:
        raise typer.Exit(1)


@commands.command("accept-loss")
def accept_loss_command(
    topic: Annotated[str, typer.Argument()], why: Annotated[str, typer.Option(prompt=True)]
) -> None:
    """Continue after records that the log deleted before they landed; the loss is recorded in landing."""
    from anabranch.ingest.landing.audit.accepted_losses import accept_loss

    settings, declared = project()
    for loss in accept_loss(settings, declared.topic(topic), why):
        typer.echo(f"{topic}/{loss['partition']}: {loss['from']}..{loss['to'] - 1} are recorded as lost")


@commands.command("accept-log")
def accept_log_command(topic: Annotated[str, typer.Argument()], why: Annotated[str, typer.Option(prompt=True)]) -> None:
    """Continue from a recreated topic that has the same records at the same offsets; this is recorded in landing."""
    from anabranch.ingest.landing.audit.accepted_losses import accept_log

    settings, declared = project()
    typer.echo(f"{topic}: landing continues from the topic with id {accept_log(settings, declared.topic(topic), why)}")
