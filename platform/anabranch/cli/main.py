"""``anabranch``: one app; each module of commands registers itself and imports what is heavy when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from anabranch.errors import AnabranchError
from anabranch.printable import printable

MODULES = (
    "platform_commands",
    "topics_commands",
    "produce_commands",
    "landing_commands",
    "census_commands",
    "quarantine_commands",
    "view_commands",
    "change_commands",
    "replay_commands",
    "read_commands",
    "routes_commands",
    "migrate_commands",
    "explain_commands",
    "certificate_commands",
    "doctor_commands",
    "maintain_commands",
    "demo",
)
"""In the order in which the help lists them."""


class Commands(TyperGroup):
    """Shows an error that we raised on purpose as its text alone, and ends with 1."""

    def invoke(self, ctx: Any) -> Any:  # typer's own click, whose types it keeps to itself
        try:
            return super().invoke(ctx)
        except AnabranchError as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(printable(str(error)), err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals hold passwords
    help="Anabranch: one view definition, two paths over the same log, proven equal at the same position.",
)


@app.callback()
def _options(debug: Annotated[bool, typer.Option("--debug", help="Show where an error was raised.")] = False) -> None:
    """The options in front of every command."""


def _register() -> None:
    for name in MODULES:
        import_module(f"anabranch.cli.{name}").register(app)


_register()

if __name__ == "__main__":
    app()
