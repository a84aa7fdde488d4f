"""``anabranch certificates`` and ``anabranch differences``: whether both paths are equal, and where they differ."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from anabranch.apps.cli.read_commands import day_of, plain
from anabranch.apps.cli.tables import print_whole

ViewName = Annotated[str, typer.Argument(help="The view's name.")]
Version = Annotated[int | None, typer.Option(help="Its version; the newest one when left out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.command("certificates")(certificates_command)
    app.command("differences")(differences_command)


def certificates_command(view: ViewName, version: Version = None, as_json: AsJson = False) -> None:
    """Show the newest certificate of each partition. Exit code 1 if one of them says that the paths differ."""
    from anabranch.certify.certificates import newest_certificates
    from anabranch.core.settings import load_settings
    from anabranch.serve.served_versions import newest_speed

    settings = load_settings()
    chosen, _ = newest_speed(settings, view, version)
    found = newest_certificates(settings, view, chosen)
    if as_json:
        typer.echo(json.dumps([certificate.to_row() for certificate in found.values()], default=plain))
    else:
        from anabranch.certify.rendering import certificates_table

        print_whole(certificates_table(view, chosen, list(found.values())))
    if not all(certificate.equal for certificate in found.values()):
        raise typer.Exit(1)


def differences_command(
    view: ViewName,
    partition: Annotated[str | None, typer.Option(help="The day; left out for a kappa view.")] = None,
    version: Version = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of keys.")] = 20,
) -> None:
    """Compare one partition now: which keys differ, in which columns, and the events behind them. Starts Spark.

    Exit code 1 if anything differs.
    """
    from anabranch.apps.cli.context import project_views
    from anabranch.certify.differences import differences
    from anabranch.certify.rendering import differences_table
    from anabranch.core.engine_end import engine
    from anabranch.core.errors import BadInput

    settings, registry = project_views()
    found_view = registry.get(view, version)
    day = day_of(partition) if partition else None
    if (day is None) != found_view.kappa:
        says = "has no partitions" if found_view.kappa else "is compared by day"
        raise BadInput("PARTITION_NEEDED", f"{view} {says}", next_step="give --partition 2013-01-31, or leave it out")
    with engine(settings, f"anabranch-differences-{view}") as spark:
        found = differences(spark, settings, found_view, registry.topic(found_view), day, limit=limit)
    if not found:
        typer.echo(f"{view} v{found_view.version}{f' on {day}' if day else ''}: both paths are equal")
        return
    print_whole(differences_table(found_view, day, found))
    raise typer.Exit(1)
