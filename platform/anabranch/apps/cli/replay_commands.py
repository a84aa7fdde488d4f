"""``anabranch replay``: run a view's stream again from history, beside the live one, and show it in one step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from anabranch.change.replay_plan import ReplayPlan
    from anabranch.core.settings import Settings

replay = typer.Typer(no_args_is_help=True, help="Replays: a view's stream again from history, beside the live one.")
ViewName = Annotated[str, typer.Argument(help="The view's name.")]
Version = Annotated[int | None, typer.Option(help="The view's version; the newest one when left out.")]
From = Annotated[str, typer.Option("--from", help="The first day, YYYY-MM-DD; the whole view when left out.")]
To = Annotated[str, typer.Option("--to", help="The last day, included.")]
Since = Annotated[str, typer.Option(help="Days that events behind this cut touch, like flights@12.")]
Until = Annotated[str, typer.Option(help="How far, like flights@20; the newest when left out.")]
Share = Annotated[float | None, typer.Option(help="Percent of all cores, at most; 10 when left out.")]
Source = Annotated[str, typer.Option(help="Whose bytes are read: landing, or log, where it still reaches.")]
Speed = Annotated[float | None, typer.Option(help="Times real time, at most; 0 for no limit.")]


def register(app: typer.Typer) -> None:
    app.add_typer(replay, name="replay")


@replay.command()
def plan(
    view: ViewName,
    version: Version = None,
    first: From = "",
    last: To = "",
    since: Since = "",
    until: Until = "",
    share: Share = None,
    speed: Speed = None,
    source: Source = "landing",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What a replay would walk, replace and leave alone, and how long it takes. Changes nothing."""
    _, made = _planned(view, version, _asked(first, last, since, until, share, speed, source))
    typer.echo(json.dumps(made.to_json()) if as_json else made.to_text())


@replay.command()
def start(
    view: ViewName,
    version: Version = None,
    first: From = "",
    last: To = "",
    since: Since = "",
    until: Until = "",
    share: Share = None,
    speed: Speed = None,
    source: Source = "landing",
    wait: Annotated[bool, typer.Option(help="Wait until the run has ended.")] = True,
    approve: Annotated[bool, typer.Option("--approve", help="Give the approval that a large plan needs.")] = False,
) -> None:
    """Plan a replay, then have the DAG `replay` carry it out. Airflow must run. Exit code 1 when that failed."""
    from anabranch.apps.cli.run_progress import carried_out

    asked = _asked(first, last, since, until, share, speed, source)
    settings, made = _planned(view, version, asked)
    typer.echo(made.to_text())
    given = {name: value for name, value in asked.items() if value not in ("", None)}
    carried_out(settings, "replay", {"view": made.view, "version": made.version, **given}, wait=wait, approve=approve)


@replay.command()
def status(
    view: ViewName,
    version: Version = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """How far the newest replay has come, how fast it is, and how it ended."""
    from anabranch.change.replay.state import list_states

    settings, number = _version(view, version)
    found = list_states(settings, view, number)
    newest = found[-1] if found else None
    if as_json:
        typer.echo(json.dumps(newest.to_json() if newest else None))
    else:
        typer.echo(str(newest) if newest else f"{view} v{number}: no replay")


@replay.command()
def pace(view: ViewName, version: Version = None, share: Share = None, speed: Speed = None) -> None:
    """Let the replay that is under way take more or less of the machine, from its next slice on."""
    from anabranch.change.replay.control import active_replay, set_pace
    from anabranch.change.replay.state import read_control
    from anabranch.change.replay_request import pace_of

    settings, number = _version(view, version)
    standing = active_replay(settings, view, number)
    wanted = pace_of(_asked(share=share, speed=speed), read_control(settings, standing).pace)
    set_pace(settings, standing, wanted)
    limit = f"at most {wanted.speed:,g} times real time" if wanted.speed else "no limit of its speed"
    typer.echo(f"{view} v{number}: at most {wanted.share:.0%} of the cores, {limit}")


@replay.command()
def cancel(view: ViewName, version: Version = None) -> None:
    """End the replay that is under way, or that was killed. Nothing of it is left, and nothing is published."""
    from anabranch.change.replay.control import cancel as end
    from anabranch.serve.routes import this_reader

    settings, number = _version(view, version)
    ended = end(settings, view, number, this_reader())
    typer.echo(str(ended) if ended.ended else f"{view} v{number}: it ends before its next slice")


def _asked(
    first: str = "",
    last: str = "",
    since: str = "",
    until: str = "",
    share: float | None = None,
    speed: float | None = None,
    source: str = "",
) -> dict[str, Any]:
    """As the form of the DAG has them."""
    asked = {"from": first, "to": last, "since": since, "until": until, "share": share, "speed": speed}
    return {**asked, "source": source}


def _planned(name: str, version: int | None, asked: dict[str, Any]) -> tuple[Settings, ReplayPlan]:
    from anabranch.apps.cli.context import project_views
    from anabranch.change.replay_plan import make_replay_plan
    from anabranch.change.replay_request import parse_replay_parameters

    settings, registry = project_views()
    view = registry.get(name, version)
    topics = registry.topic(view)
    wish = parse_replay_parameters(asked, [topic.name for topic in topics.each])
    return settings, make_replay_plan(settings, view, topics, wish)


def _version(name: str, version: int | None) -> tuple[Settings, int]:
    from anabranch.apps.cli.context import project_views

    settings, registry = project_views()
    return settings, registry.get(name, version).version
