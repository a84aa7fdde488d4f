"""``anabranch http``: which clients may send events over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.apps.cli._tables import print_whole

http = typer.Typer(no_args_is_help=True, help="Events over HTTP: which clients may send them.")
Name = Annotated[str, typer.Argument(help="The client's name.")]


def register(app: typer.Typer) -> None:
    app.add_typer(http, name="http")


@http.command()
def allow(
    name: Name,
    topic: Annotated[list[str], typer.Option(help="A topic that it may send to; may be repeated.")],
    webhook: Annotated[bool, typer.Option("--webhook", help="The client signs its requests, as GitHub does.")] = False,
) -> None:
    """Allow a client to send events. Its token (or its webhook's secret) is shown only now."""
    from anabranch.apps.cli._context import project
    from anabranch.core.errors import BadInput
    from anabranch.ingest.http import access

    settings, declared = project()
    if unknown := sorted(set(topic) - set(declared.topics)):
        raise BadInput(
            "TOPIC_MISSING",
            f"{', '.join(unknown)}: not declared",
            state="nothing was changed",
            next_step=f"declared are {', '.join(sorted(declared.topics))}",
        )
    if webhook and len(topic) > 1:
        raise BadInput(
            "CLIENT_TOPICS",
            "a webhook sends to one topic",
            state="nothing was changed",
            next_step="give one --topic, or make one webhook for each",
        )
    given = access.allow(settings, name, topic, webhook=webhook)
    scheme = "https" if settings.http_certificate else "http"
    where = f"{scheme}://{settings.http_host}:{settings.http_port}"
    if webhook:
        typer.echo(f"secret of {name}, shown once: {given}\n  POST {where}/webhooks/{name}, signed (SHA-256)")
    else:
        typer.echo(f"token of {name}, shown once: {given}")
        for each in topic:
            typer.echo(f"  POST {where}/topics/{each}")
    typer.echo("Next, if http isn't among the parts of anabranch status: anabranch down, then anabranch up")


@http.command("list")
def list_command() -> None:
    """Show the clients and their topics; never a token."""
    from rich.table import Table

    from anabranch.core.settings import load_settings
    from anabranch.core.text.terminal_text import cell
    from anabranch.ingest.http.access import read_clients

    table = Table("client", "topics", "let in by")
    for name, client in read_clients(load_settings()).items():
        if client is None:
            table.add_row(cell(name), "", "its file can't be read: allow it again, or revoke it")
        else:
            table.add_row(client.name, ", ".join(client.topics), "signature" if client.secret else "token")
    if table.row_count:
        print_whole(table)
    else:
        typer.echo("no client may send events over HTTP. Next: anabranch http allow NAME --topic TOPIC")


@http.command()
def revoke(name: Name) -> None:
    """Revoke a client's access. Takes effect within a second."""
    from anabranch.core.errors import BadInput
    from anabranch.core.settings import load_settings
    from anabranch.ingest.http import access

    if not access.revoke(load_settings(), name):
        raise BadInput("CLIENT_NAME", f"there is no client {name!r}", next_step="anabranch http list")
    typer.echo(f"{name} can't send events any more")
