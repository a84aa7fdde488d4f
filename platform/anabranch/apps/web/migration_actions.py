"""The buttons of a migration: halt, resume, go on now, roll back. POST only, from our own page, with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from anabranch.apps.web.access import MIGRATE, Edits, from_our_page
from anabranch.apps.web.forms import Form, form_of, number_of, one_of
from anabranch.apps.web.migrations import ACTIONS
from anabranch.apps.web.pages import Platform, View
from anabranch.change import migration
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.serve.routes import route_of
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse

router = APIRouter(dependencies=[Depends(from_our_page), Depends(Edits(MIGRATE))])
_LONG = 500
_FUNCTIONS = {"hasten": "skip_soak"}
"""Of ``change.migration``, where it is named otherwise than the button."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form says. ``after`` is the number of the route that the person saw; None: they didn't say."""

    action: str
    why: str
    after: int | None


async def asked(request: Request) -> Asked:
    """HTTP 413 or 415; BadInput FORM_UNREADABLE, ACTION_UNKNOWN or REASON_WRONG."""
    said = await form_of(request)
    return Asked(one_of(ACTIONS, said), _reason(said), number_of(said, "after", int))


@router.post("/views/{view}/migration")
def change(
    request: Request, known: View, settings: Platform, user: GetUserDep, form: Annotated[Asked, Depends(asked)]
) -> RedirectResponse:
    """Do it in the user's name, and show the page again."""
    if form.after is not None and form.action != "rollback":
        _check_still_holds(settings, known.name, form.after)
    getattr(migration, _FUNCTIONS.get(form.action, form.action))(settings, known.name, by=user.get_name(), why=form.why)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/views/{known.name}/migration", 303)


def _check_still_holds(settings: Settings, view: str, after: int) -> None:
    """What was decided before a step may be wrong behind it. Back is always right."""
    now = route_of(settings, view)
    if (now.number if now else 0) != after:
        raise Conflict(
            "ROUTE_MOVED",
            f"{view}: the route is another one by now ({now})",
            state="nothing was changed",
            next_step="look at the page again, and decide again",
        )


def _reason(said: Form) -> str:
    """In one line: it is shown in tables, notes and logs."""
    why = " ".join(said.get("why", "").split())
    if not why or len(why) > _LONG or not why.isprintable():
        raise BadInput(
            "REASON_WRONG",
            f"why is a text of 1 to {_LONG} characters that can be printed",
            state="nothing was changed",
            next_step="say in a line why: it is kept for ever in the history of the route",
            field="why",
        )
    return why
