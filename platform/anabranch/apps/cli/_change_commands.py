"""``anabranch plan``, ``reprocess`` and ``compare``: plan and rebuild days of a view, and compare its versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anabranch.change.reprocess_plan import Plan
    from anabranch.core.settings import Settings

ViewName = Annotated[str, typer.Argument(help="The view's name.")]
From = Annotated[str | None, typer.Option("--from", help="The first day, YYYY-MM-DD.")]
To = Annotated[str | None, typer.Option("--to", help="The last day, inclusive; default: one day.")]
AllMissing = Annotated[
    bool,
    typer.Option(
        "--missing", help="Instead of days: all days that were never published or lack late or loaded events."
    ),
]
At = Annotated[str | None, typer.Option("--cut", help="A position of the log, like flights@12; default: the newest.")]
Version = Annotated[int | None, typer.Option(help="The view's version; default: the one that most readers have.")]


def register(app: typer.Typer) -> None:
    app.command("plan")(plan_command)
    app.command("reprocess")(reprocess_command)
    app.command("compare")(compare_command)


def plan_command(
    view: ViewName,
    first: From = None,
    last: To = None,
    cut: At = None,
    version: Version = None,
    all_missing: AllMissing = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a reprocess of these days would read and replace, and how long it would take. Changes nothing."""
    _, plan = _planned(view, first, last, cut, version, all_missing)
    typer.echo(json.dumps(plan.to_json()) if as_json else plan.to_text())


def reprocess_command(
    view: ViewName,
    first: From = None,
    last: To = None,
    cut: At = None,
    version: Version = None,
    all_missing: AllMissing = False,
    wait: Annotated[bool, typer.Option(help="Wait until the run has ended.")] = True,
    approve: Annotated[bool, typer.Option("--approve", help="Give the approval that a large plan needs.")] = False,
) -> None:
    """Plan these days, then run the view's DAG, which rebuilds, certifies and publishes them. Requires Airflow.

    With --missing the run makes its own plan, of the days that are missing then.
    Exit code 1 if the run fails or a day could not be published; published days stay published.
    """
    from anabranch.apps.cli._run_progress import carried_out

    settings, plan = _planned(view, first, last, cut, version, all_missing)
    typer.echo(plan.to_text())
    if not plan.partitions:
        return
    days = {"missing": True} if all_missing else {"from": first, "to": last}
    params = {**days, "cut": cut, "version": plan.version}
    carried_out(settings, _dag_of(settings, plan), params, wait=wait, approve=approve)


def compare_command(
    view: ViewName,
    old: Annotated[int, typer.Argument(help="One version.")],
    new: Annotated[int, typer.Argument(help="The other one.")],
    changed: Annotated[
        list[str] | None,
        typer.Option(help="A column that is meant to differ in the new version, or to be removed; repeatable."),
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Only this day.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two versions of a view at one cut: what breaks readers, what is equal, what differs. Changes nothing.

    Exit code 1 if anything differs that --changed doesn't name.
    """
    from anabranch.apps.cli._context import project_views
    from anabranch.apps.cli._read_commands import day_of, plain
    from anabranch.certify.compare_versions import compare_versions
    from anabranch.certify.rendering import version_lines

    settings, registry = project_views()
    day = day_of(partition) if partition else None
    found = compare_versions(settings, registry.get(view, old), registry.get(view, new), changed or (), day)
    if as_json:
        typer.echo(json.dumps(found.to_json(), default=plain))
    else:
        for line in version_lines(found):
            typer.echo(line)
    if not found.as_declared:
        raise typer.Exit(1)


def _dag_of(settings: Settings, plan: Plan) -> str:
    from anabranch.apps.airflow.static_views import declared_views, reprocess_dag
    from anabranch.views.retired_versions import retired_versions

    retired = retired_versions(settings, plan.view)
    declared = declared_views(settings.views_folder).get(plan.view, ())
    return reprocess_dag(plan.view, [each for each in declared if each.version not in retired], plan.version)


def refuse_empty(options: Mapping[str, str | None]) -> None:
    """Raises BadInput for a day or a cut that is given as "", by a variable that a script has not filled: read as
    "not given", it would widen the work."""
    from anabranch.change.request_fields import parameter_error

    for name, given in options.items():
        if given is not None and not given.strip():
            code = "DATE_UNREADABLE" if name in ("from", "to") else "CUT_UNREADABLE"
            raise parameter_error(name, code, "is empty", f"give --{name} a value, or leave it out")


def _planned(
    name: str, first: str | None, last: str | None, cut: str | None, version: int | None, all_missing: bool
) -> tuple[Settings, Plan]:
    from anabranch.apps.cli._context import project_views
    from anabranch.change.migrate.migration_record import view_of_readers
    from anabranch.change.reprocess_plan import make_plan
    from anabranch.change.reprocess_request import parse_reprocess_request
    from anabranch.change.request_fields import parameter_error

    refuse_empty({"from": first, "to": last, "cut": cut})
    settings, registry = project_views()
    view = view_of_readers(settings, registry, name, version)
    days = {"from": first, "to": last, "missing": all_missing}
    request = parse_reprocess_request({**days, "cut": cut}, [topic.name for topic in view.topics.each], date.min)
    if not request.explicit and not request.missing:  # unlike a scheduled run, a command has no default day
        raise parameter_error(
            "from", "RANGE_OPEN", "no day is given", "give --from (and --to), or --missing for all missing days"
        )
    return settings, make_plan(view, request)
