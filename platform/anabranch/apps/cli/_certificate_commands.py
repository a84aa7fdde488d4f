"""``anabranch certify``, ``certificates`` and ``differences``: whether both paths are equal, and where they differ."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._read_commands import day_of, plain
from anabranch.apps.cli._tables import print_whole
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.change.certify_run import Certified

ViewName = Annotated[str, typer.Argument(help="The view's name.")]
Version = Annotated[int | None, typer.Option(help="Its version; default: the newest one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.command("certify")(certify_command)
    app.command("certificates")(certificates_command)
    app.command("differences")(differences_command)


def certify_command(
    view: ViewName,
    version: Annotated[int | None, typer.Option(help="Its version; default: the one that most readers have.")] = None,
    days: Annotated[
        str, typer.Option(help="2013-01-01 or 2013-01-01..2013-01-03; default: all. A kappa view has none.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Compare a view's live table with its function over landing, at one cut, and store certificates. Starts Spark.

    Exit code 1 if anything differs, or a data check fails. Readers and the stream are not affected.
    """
    from anabranch.apps.cli._context import project_views
    from anabranch.change.certify_plan import make_certify_plan
    from anabranch.change.certify_run import certify_live_table
    from anabranch.change.migrate.migration_record import view_of_readers
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.engine.spark import engine_for
    from anabranch.operate.trial import read_days

    settings, registry = project_views()
    found = view_of_readers(settings, registry, view, version)
    plan = make_certify_plan(found, read_days(days))
    if not as_json:
        typer.echo(plan.to_text())
    run = f"certify-{datetime.now(UTC):%Y%m%dt%H%M%S}-{token_hex(3)}"
    with engine(settings, f"anabranch-certify-{found.name}", engine_for(settings, plan.events)) as spark:
        certified = certify_live_table(spark, found, plan, run)
    if as_json:
        rows = [certificate.to_row() for certificate in certified.certificates]
        typer.echo(json.dumps({**plan.to_json(), "certificates": rows, **certified.to_json()}, default=plain))
    else:
        _print(certified)
    if not certified.equal:
        raise typer.Exit(1)


def _print(certified: Certified) -> None:
    typer.echo(printable(certified.text))
    if certified.verdict.report:
        typer.echo(certified.verdict.report)
    if not certified.equal:
        typer.echo(f"readers keep what they have; next: {certified.next_step} repairs it")


def certificates_command(view: ViewName, version: Version = None, as_json: AsJson = False) -> None:
    """Show the newest certificate of each partition. Exit code 1 if one of them says that the paths differ."""
    from anabranch.certify.certificates import newest_certificates
    from anabranch.core.settings import load_settings
    from anabranch.lake.layout import VersionRef
    from anabranch.serve.served_versions import newest_speed

    settings = load_settings()
    chosen, _ = newest_speed(settings, view, version)
    found = newest_certificates(VersionRef(settings, view, chosen))
    if as_json:
        typer.echo(json.dumps([certificate.to_row() for certificate in found.values()], default=plain))
    else:
        from anabranch.certify.rendering import certificates_table

        print_whole(certificates_table(view, chosen, list(found.values())))
    if not all(certificate.equal for certificate in found.values()):
        raise typer.Exit(1)


def differences_command(
    view: ViewName,
    partition: Annotated[str | None, typer.Option(help="The day; not for a kappa view.")] = None,
    version: Version = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of keys.")] = 20,
) -> None:
    """Compare one partition now: which keys differ, in which columns, and the events behind them. Starts Spark.

    Exit code 1 if anything differs.
    """
    from anabranch.apps.cli._context import project_views
    from anabranch.certify.differences import differences
    from anabranch.certify.rendering import differences_table
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.errors import BadInput

    settings, registry = project_views()
    found_view = registry.get(view, version)
    day = day_of(partition) if partition else None
    if (day is None) != found_view.kappa:
        says = "has no partitions" if found_view.kappa else "is compared by day"
        raise BadInput("PARTITION_NEEDED", f"{view} {says}", next_step="give --partition 2013-01-31, or leave it out")
    with engine(settings, f"anabranch-differences-{view}") as spark:
        found = differences(spark, registry.handle(settings, found_view), day, limit=limit)
    if not found:
        typer.echo(f"{view} v{found_view.version}{f' on {day}' if day else ''}: both paths are equal")
        return
    print_whole(differences_table(found_view, day, found))
    raise typer.Exit(1)
