"""The buttons of a replay: change its pace, or cancel it. POST only, from our own page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

from anabranch.apps.web._access import REPLAY, RequireEdit, from_our_page
from anabranch.apps.web._forms import form_of, number_of, one_of
from anabranch.apps.web._pages import Platform, View
from anabranch.change.replay import control
from anabranch.change.replay.state import read_control
from anabranch.change.replay_request import pace_of
from anabranch.lake.layout import VersionRef

router = APIRouter(dependencies=[Depends(from_our_page), Depends(RequireEdit(REPLAY))])


@dataclass(frozen=True, slots=True)
class ReplayForm:
    """The form's fields: ``share`` in percent, ``speed`` as a multiple of real time; None: unchanged. ``run``: the
    replay that the person saw; "" if not given."""

    action: str
    share: float | None
    speed: float | None
    run: str


async def parse_form(request: Request) -> ReplayForm:
    """Parses the form. Raises HTTP 413 or 415, or BadInput FORM_UNREADABLE or ACTION_UNKNOWN."""
    fields = await form_of(request)
    action = one_of(("pace", "cancel"), fields)
    run = fields.get("run", "")
    return ReplayForm(action, number_of(fields, "share", float), number_of(fields, "speed", float), run)


@router.post("/views/{view}/v{version}/replay")
def steer(
    request: Request,
    known: View,
    version: int,
    settings: Platform,
    user: GetUserDep,
    form: Annotated[ReplayForm, Depends(parse_form)],
) -> RedirectResponse:
    """Makes the change in the user's name, and redirects to the page."""
    if version not in known.versions:
        raise HTTPException(404, f"{known.name} has no such version")
    ref = VersionRef(settings, known.name, version)
    if form.action == "cancel":
        control.cancel(ref, user.get_name(), form.run)
    else:
        standing = control.active_replay(ref, form.run)
        wanted = pace_of({"share": form.share, "speed": form.speed}, read_control(settings, standing).pace)
        control.set_pace(settings, standing, wanted)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/views/{known.name}/replays", 303)
