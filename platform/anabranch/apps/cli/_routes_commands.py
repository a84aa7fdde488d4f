"""``anabranch routes``: shows and sets which share of a view's readers gets which version."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from anabranch.serve.routes import Route

routes = typer.Typer(no_args_is_help=True, help="Routes: which share of a view's readers gets which version.")
ViewName = Annotated[str, typer.Argument(help="The view's name.")]
_SHARE = re.compile("([0-9]{1,9})=([0-9]{1,9})")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.add_typer(routes, name="routes")


@routes.command()
def show(
    view: ViewName,
    reader: Annotated[str | None, typer.Option(help="Also show which version this reader gets.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the current route."""
    from anabranch.core.settings import load_settings
    from anabranch.serve.routes import oldest_version, route_of

    settings = load_settings()
    route = route_of(settings, view)
    version = (route.version_for(reader) if route else oldest_version(settings, view)) if reader else None
    if as_json:
        typer.echo(json.dumps({"route": _plain(route) if route else None, "reader": reader, "version": version}))
        return
    typer.echo(
        _line(route) if route else f"no route: all readers get v{oldest_version(settings, view)}, the oldest version"
    )
    if reader:
        typer.echo(f"{printable(reader)} gets v{version}")


@routes.command()
def history(view: ViewName, as_json: AsJson = False) -> None:
    """Show every change: when, by whom, and why."""
    from anabranch.core.settings import load_settings
    from anabranch.serve.retirement import retirement_text
    from anabranch.serve.routes import route_history

    found = route_history(load_settings(), view)
    if as_json:
        typer.echo(json.dumps([_plain(route) for route in found]))
        return
    for before, route in zip([None, *found], found, strict=False):
        typer.echo(_line(route, retirement_text(before, route)))
    if not found:
        typer.echo(f"{view} never had a route")


@routes.command("set")
def set_command(
    view: ViewName,
    shares: Annotated[list[str], typer.Argument(help="VERSION=PERCENT of each version, adding up to 100: 1=75 2=25")],
    why: Annotated[str, typer.Option(help="The reason, for the history.")],
    by: Annotated[str | None, typer.Option(help="Who changes it; default: user@host.")] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="Change it only if the newest route still has this number.")
    ] = None,
) -> None:
    """Set the readers' versions from now on. 1=100 is a rollback: readers are back within five seconds."""
    from anabranch.core.settings import load_settings, user_at_host
    from anabranch.serve.routes import set_route

    route = set_route(load_settings(), view, _shares(shares), by=by or user_at_host(), why=why, after=after)
    typer.echo(_line(route))


def _shares(texts: list[str]) -> dict[int, int]:
    from anabranch.core.errors import BadInput

    found: dict[int, int] = {}
    for text in texts:
        if (share := _SHARE.fullmatch(text)) is None:
            raise BadInput("SHARES_WRONG", f"{text[:40]!r} is not a share", next_step="write 1=75 2=25", field="shares")
        version = int(share[1])
        if version in found:
            raise BadInput("SHARES_WRONG", f"v{version} is given twice", next_step="write 1=75 2=25", field="shares")
        found[version] = int(share[2])
    return found


def _plain(route: Route) -> dict[str, Any]:
    return {
        "view": route.view,
        "number": route.number,
        "shares": {str(version): share for version, share in route.shares.items()},
        "changed_at": route.changed_at.isoformat(),
        "changed_by": route.changed_by,
        "why": route.why,
    }


def _line(route: Route, retired: str = "") -> str:
    shares = f"{route}; {retired}" if retired else f"{route}"
    said = printable(f"by {route.changed_by}: {route.why}")
    return f"{route.number}  {route.changed_at:%Y-%m-%d %H:%M:%S} UTC  {shares}  {said}"
