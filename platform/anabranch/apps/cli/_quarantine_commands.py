"""``anabranch quarantine``: lists, shows and releases records that couldn't be read."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from anabranch.apps.cli._context import project
from anabranch.apps.cli._tables import print_whole
from anabranch.core.errors import BadInput

TopicName = Annotated[str, typer.Argument(help="A declared topic.")]
Coordinates = Annotated[
    str, typer.Argument(metavar="PARTITION:OFFSET", help="The record's partition and offset in the log.")
]
Kind = Annotated[str | None, typer.Option(help="Only records of this kind, as `list` names them.")]
_PLACE = re.compile(r"(file)?([0-9]{1,18}):([0-9]{1,18})")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

commands = typer.Typer(no_args_is_help=True, help="Records that couldn't be read: list, show, release.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="quarantine")


@commands.command("list")
def list_command(
    topic: TopicName,
    kind: Kind = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of records with --kind.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Count the records of TOPIC in quarantine by kind; with --kind, list them. JSON always lists them."""
    from anabranch.ingest.landing.audit.quarantine import find_quarantined, kinds_quarantined
    from anabranch.ingest.landing.audit.report import kinds_table, place, quarantine_table

    settings, declared = project()
    found, kind = declared.topic(topic), _kind(kind)
    if as_json:
        records = find_quarantined(settings, found, kind=kind, content=False)
        lines = [
            {"at": place(r.partition, r.offset), "epoch": r.epoch, "kind": r.kind, "type": r.type, "reason": r.reason}
            for r in records
        ]
        typer.echo(json.dumps(lines))
    elif kind is not None:
        print_whole(quarantine_table(topic, find_quarantined(settings, found, kind=kind, content=False), limit))
    elif not (kinds := kinds_quarantined(settings, found)):
        typer.echo(f"{topic}: nothing is in quarantine")
    else:
        print_whole(kinds_table(topic, kinds))
        typer.echo(
            f"anabranch quarantine list {topic} --kind KIND lists the records, show {topic} PARTITION:OFFSET one"
        )


@commands.command("show")
def show_command(topic: TopicName, at: Coordinates) -> None:
    """Show one record: its coordinates, the reason, and its bytes (escaped as in Python)."""
    from anabranch.ingest.landing.audit.quarantine import find_quarantined
    from anabranch.ingest.landing.audit.report import place

    settings, declared = project()
    r = find_quarantined(settings, declared.topic(topic), _coordinates(at))[0]
    typer.echo(f"{r.topic}/{place(r.partition, r.offset)}, appended {r.append_time.isoformat()}, epoch {r.epoch}")
    typer.echo(f"reason: {r.reason!a}\nkey:    {r.key!a}\nvalue:  {(r.value or b'')[:10_000]!a}")
    for name, text in r.headers or ():
        typer.echo(f"header: {name!a}: {text!a}")


@commands.command("release")
def release_command(
    topic: TopicName,
    at: Annotated[str | None, typer.Option(metavar="PARTITION:OFFSET", help="One record only.")] = None,
    kind: Kind = None,
    why: Annotated[str, typer.Option(help="What was fixed; recorded with the epoch.")] = "mended",
    by: Annotated[str | None, typer.Option(help="Who does it; recorded too. Default: user@host.")] = None,
) -> None:
    """Check the records again by today's contracts. Those that are valid now land as a new epoch, with the reason."""
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.settings import user_at_host
    from anabranch.ingest.landing.audit.quarantine import kinds_quarantined, release

    settings, declared = project()
    found, place, kind = declared.topic(topic), None if at is None else _coordinates(at), _kind(kind)
    if not kinds_quarantined(settings, found, place, kind):  # before an engine is started
        typer.echo(f"{topic}: nothing is in quarantine")
        return
    with engine(settings, "anabranch-release") as spark:
        done = release(spark, settings, found, place, why, by=by or user_at_host(), kind=kind)
    where = f" as epoch {done.epoch}" if done.epoch else ""
    typer.echo(f"{done.released} released{where}, {done.duplicates} are duplicates now")
    for reason, count in sorted(done.still.items()):
        typer.echo(f"{count} still in quarantine: {reason!a}")


def _coordinates(text: str) -> tuple[int, int]:
    if (found := _PLACE.fullmatch(text)) is None:
        raise BadInput(
            "COORDINATES",
            f"{text!r} is not PARTITION:OFFSET",
            next_step="write it like 2:1733; a row of a loaded file like file2:1733",
        )
    return -int(found[2]) if found[1] else int(found[2]), int(found[3])


def _kind(text: str | None) -> str | None:
    """A kind that was asked for. Raises BadInput PARAMETER for one with bytes that are no UTF-8: no record has it."""
    if text is not None and text != text.encode("utf-8", "replace").decode():
        raise BadInput(
            "PARAMETER",
            f"--kind is {text!a}, which is no UTF-8",
            state="nothing was changed",
            next_step="write it as anabranch quarantine list names it",
            parameter="--kind",
        )
    return text
