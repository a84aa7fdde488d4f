"""``anabranch contracts``: a contract and a topic from sample records."""

from __future__ import annotations

import contextlib
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from anabranch.apps.cli.context import project
from anabranch.core.errors import BadInput, Conflict

contracts = typer.Typer(no_args_is_help=True, help="Contracts: inferred from sample records.")
_MAX_RECORDS = 100_000


def register(app: typer.Typer) -> None:
    app.add_typer(contracts, name="contracts")


@contracts.command("infer")
def infer_command(
    file: Annotated[
        str,
        typer.Argument(help="Sample records, one JSON object a line, of which 100,000 are read; - for standard input."),
    ],
    event_type: Annotated[str, typer.Option("--type", help="The event type, like payment.made.")],
    topic: Annotated[str, typer.Option("--topic", help="The topic's name, like payments.")],
    write: Annotated[bool, typer.Option("--write", help="Write both files into spark_jobs/contracts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write the contract of records that exist already, and the declaration of their topic, with what is unsure."""
    from anabranch.contracts.infer import infer
    from anabranch.contracts.topics import TOPIC_NAME

    if not TOPIC_NAME.fullmatch(topic):
        raise BadInput("TOPIC_NAME", f"{topic!r} is no topic name", next_step="use a-z, 0-9 and _")
    settings, _ = project() if write else (None, None)
    found = infer(event_type, _lines(file))
    if settings is not None:
        files = {f"{found.name}.v1.json": found.contract_file(), f"{topic}.py": found.declaration(topic)}
        _write(settings.contracts_folder, files)
    elif as_json:
        known = {"contract": json.loads(found.contract_file()), "declaration": found.declaration(topic)}
        typer.echo(json.dumps({**known, "left_out": list(found.left_out), "records": found.records}))
    else:
        typer.echo(
            f"# {found.name}.v1.json\n{found.contract_file()}\n# {topic}.py\n{found.declaration(topic)}", nl=False
        )


def _lines(file: str) -> list[str]:
    """The first lines of the sample: a whole topic may be in the file, and more records say nothing new."""
    try:
        with contextlib.nullcontext(sys.stdin) if file == "-" else Path(file).open() as source:
            return list(islice(source, _MAX_RECORDS))
    except (OSError, ValueError) as error:
        raise BadInput("SAMPLE", f"{file!a} can't be read: {error}", next_step="give a file of JSON lines") from None


def _write(folder: Path, files: dict[str, str]) -> None:
    if there := [name for name in files if (folder / name).exists()]:
        raise Conflict(
            "FILE_EXISTS",
            f"{folder / there[0]} exists already",
            state="nothing was written",
            next_step="move it away, or leave out --write and compare",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
        typer.echo(f"wrote {folder / name}")
    typer.echo("next: check the comments, then anabranch topics list")
