"""The buttons of a replay: another pace, or its end. POST only, from our own page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from anabranch.apps.web.access import REPLAY, Edits, from_our_page
from anabranch.apps.web.forms import form_of, number_of, one_of
from anabranch.apps.web.pages import Platform, View
from anabranch.change.replay import control
from anabranch.change.replay.state import read_control
from anabranch.change.replay_request import pace_of
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

router = APIRouter(dependencies=[Depends(from_our_page), Depends(Edits(REPLAY))])


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form says: ``share`` in percent, ``speed`` in times real time; None: as it is."""

    action: str
    share: float | None
    speed: float | None


async def asked(request: Request) -> Asked:
    """HTTP 413 or 415; BadInput FORM_UNREADABLE or ACTION_UNKNOWN."""
    said = await form_of(request)
    action = one_of(("pace", "cancel"), said)
    return Asked(action, number_of(said, "share", float), number_of(said, "speed", float))


@router.post("/views/{view}/v{version}/replay")
def steer(
    request: Request,
    known: View,
    version: int,
    settings: Platform,
    user: GetUserDep,
    form: Annotated[Asked, Depends(asked)],
) -> RedirectResponse:
    """Do it in the user's name, and show the page again."""
    if version not in known.versions:
        raise HTTPException(404, f"{known.name} has no such version")
    if form.action == "cancel":
        control.cancel(settings, known.name, version, user.get_name())
    else:
        standing = control.active_replay(settings, known.name, version)
        wanted = pace_of({"share": form.share, "speed": form.speed}, read_control(settings, standing).pace)
        control.set_pace(settings, standing, wanted)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/views/{known.name}/replays", 303)
