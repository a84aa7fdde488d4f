"""Builds the app ``anabranch``. Each command module registers itself, and imports heavy packages only when called;
other distributions add commands by entry points (``plugins``)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from anabranch.apps.cli.plugins import command_names, register_commands
from anabranch.core.errors import AnabranchError
from anabranch.core.extras import missing_extra
from anabranch.core.text.terminal_text import printable

MODULES = (  # of ``anabranch.apps``
    "cli._project_commands",
    "cli._platform_commands",
    "cli._topics_commands",
    "cli.produce_commands",
    "cli._http_commands",
    "cli._events_commands",
    "cli._landing_commands",
    "cli._load_commands",
    "cli._census_commands",
    "cli._contract_commands",
    "cli._quarantine_commands",
    "cli._view_commands",
    "cli._try_commands",
    "cli._change_commands",
    "cli._replay_commands",
    "cli._read_commands",
    "cli._routes_commands",
    "cli._migrate_commands",
    "cli._explain_commands",
    "cli._certificate_commands",
    "cli._doctor_commands",
    "cli._maintain_commands",
    "cli._backup_commands",
    "cli._upgrade_commands",
)
"""In the order of the help; commands of other distributions follow."""


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


def needs_others(arguments: Sequence[str], ours: Collection[str]) -> bool:
    """Whether commands of other distributions may be asked for: to look for them takes 45 ms, which no command of
    ``ours`` has to wait for. Help and completion show all."""
    asked = next((word for word in arguments if not word.startswith("-")), "")
    return "--help" in arguments[:1] or asked == "produce" or asked not in ours


def _register() -> None:
    for name in MODULES:
        import_module(f"anabranch.apps.{name}").register(app)
    groups = {str(group.name) for group in app.registered_groups}
    if needs_others(sys.argv[1:], command_names(app) | groups):
        register_commands(app)


_register()

if __name__ == "__main__":
    app()
