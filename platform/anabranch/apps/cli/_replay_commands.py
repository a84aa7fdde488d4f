"""``anabranch replay``: runs a view's stream again from history, in parallel to the live one, and publishes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.change.replay_plan import ReplayPlan
    from anabranch.core.settings import Settings
    from anabranch.lake.layout import VersionRef

replay = typer.Typer(no_args_is_help=True, help="Replays: run a view's stream again from history.")
ViewName = Annotated[str, typer.Argument(help="The view's name.")]
Version = Annotated[int | None, typer.Option(help="The view's version; default: the one that most readers have.")]
From = Annotated[str | None, typer.Option("--from", help="The first day, YYYY-MM-DD; default: the whole view.")]
To = Annotated[str | None, typer.Option("--to", help="The last day, inclusive.")]
Since = Annotated[str | None, typer.Option(help="The days of events that landed after this cut, like flights@12.")]
Until = Annotated[str | None, typer.Option(help="Up to this cut, like flights@20; default: the newest.")]
Share = Annotated[float | None, typer.Option(help="Maximum percent of all cores; default: 10.")]
Source = Annotated[str, typer.Option(help="Read records from landing, or from the log if it still has them.")]
Speed = Annotated[float | None, typer.Option(help="Maximum multiple of real time; 0 for no limit.")]


def register(app: typer.Typer) -> None:
    app.add_typer(replay, name="replay")


@replay.command()
def plan(
    view: ViewName,
    version: Version = None,
    first: From = None,
    last: To = None,
    since: Since = None,
    until: Until = None,
    share: Share = None,
    speed: Speed = None,
    source: Source = "landing",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a replay would read and replace, and how long it would take. Changes nothing."""
    _, made = _planned(view, version, _params(first, last, since, until, share, speed, source))
    typer.echo(json.dumps(made.to_json()) if as_json else made.to_text())


@replay.command()
def start(
    view: ViewName,
    version: Version = None,
    first: From = None,
    last: To = None,
    since: Since = None,
    until: Until = None,
    share: Share = None,
    speed: Speed = None,
    source: Source = "landing",
    wait: Annotated[bool, typer.Option(help="Wait until the run has ended.")] = True,
    approve: Annotated[bool, typer.Option("--approve", help="Give the approval that a large plan needs.")] = False,
) -> None:
    """Plan a replay, then run it with the DAG `replay`. Requires Airflow. Exit code 1 if it fails."""
    from anabranch.apps.cli._run_progress import carried_out

    params = _params(first, last, since, until, share, speed, source)
    settings, made = _planned(view, version, params)
    typer.echo(made.to_text())
    given = {name: value for name, value in params.items() if value not in ("", None)}
    carried_out(settings, "replay", {"view": made.view, "version": made.version, **given}, wait=wait, approve=approve)


@replay.command()
def status(
    view: ViewName,
    version: Version = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the newest replay's progress, its speed, and how it ended."""
    from anabranch.change.replay.state import list_states

    ref = _version(view, version)
    found = list_states(ref)
    newest = found[-1] if found else None
    if as_json:
        typer.echo(json.dumps(newest.to_json() if newest else None))
    else:
        typer.echo(printable(str(newest)) if newest else f"{ref}: no replay")


@replay.command()
def pace(view: ViewName, version: Version = None, share: Share = None, speed: Speed = None) -> None:
    """Change the running replay's share of the cores and its speed limit, from its next slice on."""
    from anabranch.change.replay.control import active_replay, set_pace
    from anabranch.change.replay.state import read_control
    from anabranch.change.replay_request import pace_of

    ref = _version(view, version)
    standing = active_replay(ref)
    wanted = pace_of(_params(share=share, speed=speed), read_control(ref.settings, standing).pace)
    set_pace(ref.settings, standing, wanted)
    limit = f"at most {wanted.speed:,g} times real time" if wanted.speed else "no speed limit"
    typer.echo(f"{ref}: at most {wanted.share:.0%} of the cores, {limit}")


@replay.command()
def cancel(view: ViewName, version: Version = None) -> None:
    """Cancel the running or killed replay. Deletes everything that it wrote, and publishes nothing."""
    from anabranch.change.replay.control import cancel as end
    from anabranch.core.settings import user_at_host

    ref = _version(view, version)
    ended = end(ref, user_at_host())
    typer.echo(printable(str(ended)) if ended.ended else f"{ref}: it ends before its next slice")


def _params(
    first: str | None = None,
    last: str | None = None,
    since: str | None = None,
    until: str | None = None,
    share: float | None = None,
    speed: float | None = None,
    source: str = "",
) -> dict[str, Any]:
    """Returns the parameters in the form of the DAG. There an empty field says "all"; here it is a variable that a
    script has not filled. Raises BadInput."""
    from anabranch.apps.cli._change_commands import refuse_empty

    refuse_empty({"from": first, "to": last, "since": since, "until": until})
    params = {"from": first, "to": last, "since": since, "until": until, "share": share, "speed": speed}
    return {**params, "source": source}


def _planned(name: str, version: int | None, params: dict[str, Any]) -> tuple[Settings, ReplayPlan]:
    from anabranch.apps.cli._context import project_views
    from anabranch.change.migrate.migration_record import view_of_readers
    from anabranch.change.replay_plan import make_replay_plan
    from anabranch.change.replay_request import parse_replay_parameters

    settings, registry = project_views()
    view = view_of_readers(settings, registry, name, version)
    request = parse_replay_parameters(params, [topic.name for topic in view.topics.each])
    return settings, make_replay_plan(view, request)


def _version(name: str, version: int | None) -> VersionRef:
    from anabranch.apps.cli._context import project_views
    from anabranch.change.migrate.migration_record import view_of_readers

    settings, registry = project_views()
    return view_of_readers(settings, registry, name, version)
