"""Builds the app ``anabranch``. Each command module registers itself, and imports heavy packages only when called."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from anabranch.core.errors import AnabranchError
from anabranch.core.extras import missing_extra
from anabranch.core.terminal_text import printable
from typer.core import TyperGroup

MODULES = (  # of ``anabranch.apps``
    "cli.project_commands",
    "cli.platform_commands",
    "cli.topics_commands",
    "cli.produce_commands",
    "cli.http_commands",
    "cli.events_commands",
    "cli.landing_commands",
    "cli.load_commands",
    "cli.census_commands",
    "cli.contract_commands",
    "cli.quarantine_commands",
    "cli.view_commands",
    "cli.try_commands",
    "cli.change_commands",
    "cli.replay_commands",
    "cli.read_commands",
    "cli.routes_commands",
    "cli.migrate_commands",
    "cli.explain_commands",
    "cli.certificate_commands",
    "cli.doctor_commands",
    "cli.maintain_commands",
    "cli.backup_commands",
    "demo.command",
)
"""In the order of the help."""


class Commands(TyperGroup):
    """Prints an ``AnabranchError``, or which extra is missing, as text without a traceback, and exits with 1."""

    def invoke(self, ctx: Any) -> Any:  # Typer bundles Click and doesn't export its types
        try:
            return super().invoke(ctx)
        except (AnabranchError, ModuleNotFoundError) as error:
            shown = missing_extra(error) if isinstance(error, ModuleNotFoundError) else error
            if shown is None or ctx.params.get("debug"):
                raise
            typer.echo(printable(str(shown)), err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals hold passwords
    help="Anabranch: one view definition, two paths over the same log, proven equal at the same position.",
)


@app.callback()
def _options(debug: Annotated[bool, typer.Option("--debug", help="Show where an error was raised.")] = False) -> None:
    """Options before every command."""


def _register() -> None:
    for name in MODULES:
        import_module(f"anabranch.apps.{name}").register(app)


_register()

if __name__ == "__main__":
    app()
