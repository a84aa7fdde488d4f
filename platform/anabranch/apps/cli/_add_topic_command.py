"""``anabranch topics add``: asks the questions that a topic's declaration needs answered, and writes it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._context import project
from anabranch.apps.cli._contract_commands import inferred, json_lines, own_name, write_declaration
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.contracts.model.declarations import Declarations
    from anabranch.contracts.model.inferred import Inferred
    from anabranch.core.settings import Settings

_NONE = "-"
_RECORD = "record.sent"
_MOST_MINUTES = 10 * 366 * 24 * 60
"""Ten years."""


def add_topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name in Kafka.")],
    sample: Annotated[
        str,
        typer.Option("--sample", help="Records (JSON lines, .csv, .parquet, .avro), or their schema (.avsc, .desc)."),
    ] = "",
    event_type: Annotated[str, typer.Option("--type", help="The event type; default: it is asked for.")] = "",
) -> None:
    """Ask what a topic's declaration needs, propose an answer to each question from the topic's own records (or a
    sample, or the schema registry), and write contract and declaration. Press Enter to accept
    a proposal."""
    proposed, in_kafka = own_name(name), name
    settings, declared = project()
    if (known := declared.find(in_kafka)) is not None:
        raise BadInput("TOPIC_DECLARED", f"{known.full_name} is declared already", next_step="anabranch topics list")
    exists, subject, proposed_type = _look(settings, in_kafka, sample)
    if proposed != in_kafka:
        question = f"Tables, paths and commands can't have the name {in_kafka}. What is it called here?"
        name = typer.prompt(question, default=proposed, value_proc=partial(_free_name, declared))
    kind = event_type or typer.prompt("What does a record say happened? Its event type", default=proposed_type)
    found, more = inferred(sample, kind, in_kafka, subject)
    typer.echo(printable(f"{found.origin or f'{found.records:,} records'}: fields {', '.join(found.fields)}"))
    for each in found.left_out:
        typer.echo(printable(f"  {each}"))
    found = _asked(found, exists=exists)
    files = {f"{found.name}.v1.json": found.contract_file(), f"{name}.py": found.declaration(name, in_kafka), **more}
    write_declaration(settings.contracts_folder, files, declared)
    tried = f"anabranch topics try {name} --last 1000" if exists else f"anabranch topics try {name} FILE"
    typer.echo(f"next: {tried}: what landing would decide; then anabranch up, or anabranch restart landing")


def _look(settings: Settings, name: str, sample: str) -> tuple[bool, str, str]:
    """Whether the broker has the topic, the subject of the registry if its records name one there, and an event type to
    propose."""
    from anabranch.contracts.model.infer_events import common_type
    from anabranch.ingest.kafka.admin import existing_topics
    from anabranch.ingest.kafka.look import newest

    if sample:
        try:
            return name in existing_topics(settings), "", _RECORD
        except TryAgain:  # no broker runs yet: then it isn't others' either
            return False, "", _RECORD
    if name not in existing_topics(settings):
        raise BadInput(
            "SAMPLE",
            f"{settings.brokers} has no topic {name!r} yet, so there are no records to learn from",
            next_step=f"give a sample: anabranch topics add {name} --sample FILE (.jsonl, .csv, .avsc, .desc ...)",
        )
    records = [record for record in newest(settings, name, 100) if record.value]
    first = next((record.value for record in records if record.value), None)
    if first is None:
        raise BadInput("SAMPLE", f"{name} has no records yet", next_step="give a sample: --sample records.jsonl")
    if first.startswith(b"\x00"):
        return True, f"{name}-value", _RECORD
    return True, "", common_type(json_lines(name, records)) or _RECORD


def _asked(found: Inferred, *, exists: bool) -> Inferred:
    if found.has_envelope:
        return _confirmed(found, exists=exists)
    ident = _choice("What identifies an event? A second record with the same is a duplicate", found.ids, found.id)
    times = found.times
    time = _choice("When did it happen? Days, windows and lateness are by this time", [*times], next(iter(times), None))
    subject = _choice("What is it about (a customer, a device)? It may be left out", found.ids, None)
    return replace(_confirmed(found, exists=exists), id=ident, time=times.get(time or ""), subject=subject)


def _confirmed(found: Inferred, *, exists: bool) -> Inferred:
    """What is asked of any topic."""
    asked = "{} looks like money. Read it exactly, as a decimal with 2 digits behind the point?"
    exact = [each for each in found.money if typer.confirm(printable(asked.format(each)), default=True)]
    question = "How many minutes later than newer ones may a record come and still be on time?"
    minutes = typer.prompt(question, default="60", value_proc=_minutes)
    owned = not typer.confirm("Do others run this topic? Then it is never created or altered", default=exists)
    return replace(
        found.with_decimals(exact),
        lateness=f"timedelta(minutes={minutes})" if minutes != 60 else "",
        owned=owned,
        confirmed=True,
    )


def _free_name(declared: Declarations, answer: str) -> str:
    """Raises typer.BadParameter for what no declaration can be called."""
    from anabranch.contracts.model.topics import TOPIC_NAME

    if not TOPIC_NAME.fullmatch(answer):
        raise typer.BadParameter("use a-z, 0-9 and _, a letter first")
    if answer in declared.topics:
        raise typer.BadParameter(f"{answer} is declared already")
    return answer


def _minutes(answer: str) -> int:
    """Raises typer.BadParameter; the question is then asked again."""
    if not answer.isascii() or not answer.isdecimal() or int(answer) > _MOST_MINUTES:
        raise typer.BadParameter(f"write a number from 0 to {_MOST_MINUTES:,}")
    return int(answer)


def _choice(question: str, known: list[str], proposed: str | None) -> str | None:
    """One of ``known``; None for what the log has of its own (coordinates, the record's timestamp)."""
    typer.echo(printable(f"{question}.\n  choices: {', '.join(known)}; {_NONE} for none of them"))
    while True:
        answer = typer.prompt("  answer", default=proposed or _NONE)
        if answer == _NONE:
            return None
        if answer in known:
            return str(answer)
        typer.echo(printable(f"  {answer!a} is none of the choices"))
