"""``anabranch explain``: the events behind one row."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer

from anabranch.apps.cli._read_commands import plain
from anabranch.apps.cli._tables import print_whole
from anabranch.core.text.terminal_text import printable


def register(app: typer.Typer) -> None:
    app.command("explain")(explain_command)


def explain_command(
    view: Annotated[str, typer.Argument(help="The view's name.")],
    key: Annotated[list[str], typer.Option(help="A column of the row's key, like origin=JFK; repeat for each.")],
    version: Annotated[int | None, typer.Option(help="Its version; default: the one that readers get.")] = None,
    prefer: Annotated[str, typer.Option(help="Which half serves it: default, complete, fresh or speed.")] = "default",
    cut: Annotated[str | None, typer.Option(help="Explain the row at this cut, like flights@7.")] = None,
    against: Annotated[str | None, typer.Option(help="Also explain how it differs from this cut.")] = None,
    against_version: Annotated[int | None, typer.Option(help="Also explain how it differs in this version.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events shown; JSON has all.")] = 20,
    seconds: Annotated[
        float, typer.Option(min=1, help="Time limit in seconds; the start of Spark isn't counted.")
    ] = 8.0,
    contributions: Annotated[
        int, typer.Option(min=0, max=10_000, help="For how many events to compute what each contributes.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the events behind one row, what each contributed, and what changed the row last. Starts Spark."""
    import anabranch
    from anabranch.operate.explain import key_parts

    found = anabranch.explain(
        view,
        key_parts(key),
        version,
        prefer=prefer,
        cut=cut,
        against=against,
        against_version=against_version,
        seconds=seconds,
        contributions=contributions,
    )
    if as_json:
        typer.echo(json.dumps(found.to_json(), default=plain))
        return
    from anabranch.change.run_names import run_name
    from anabranch.core.settings import load_settings
    from anabranch.operate.explain import rendered

    for each in rendered(found, limit, partial(run_name, load_settings())):
        if isinstance(each, str):
            typer.echo(printable(each))
        else:
            print_whole(each)
