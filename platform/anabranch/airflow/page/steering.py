"""The buttons of a replay: another pace, or its end. POST only, from our own page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

from anabranch.airflow.page.access import REPLAY, Edits, from_our_page
from anabranch.airflow.page.forms import form_of, number_of, one_of
from anabranch.airflow.page.looking import Platform, View
from anabranch.change.replay_parameters import pace_of
from anabranch.replay import alone
from anabranch.replay.standing import wish

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
        alone.cancel(settings, known.name, version, user.get_name())
    else:
        standing = alone.under_way(settings, known.name, version)
        wanted = pace_of({"share": form.share, "speed": form.speed}, wish(settings, standing).pace)
        alone.set_pace(settings, standing, wanted)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/views/{known.name}/replays", 303)
