"""The buttons of a migration: halt, resume, hasten, roll back. POST only, from our own page, with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse

from anabranch.apps.web._access import MIGRATE, RequireEdit, from_our_page
from anabranch.apps.web._forms import Form, form_of, number_of, one_of
from anabranch.apps.web._migrations import ACTIONS
from anabranch.apps.web._pages import Platform, View
from anabranch.change.migrate import migration
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.serve.routes import route_history, route_of

router = APIRouter(dependencies=[Depends(from_our_page), Depends(RequireEdit(MIGRATE))])
_LONG, _TOLD = 500, 3
_FUNCTIONS = {"hasten": "skip_soak"}
"""Functions of ``change.migrate.migration`` whose name differs from the button's action."""


@dataclass(frozen=True, slots=True)
class MigrationForm:
    """The form's fields. ``after``: the number of the route that the person saw; None if not given."""

    action: str
    why: str
    after: int | None


async def parse_form(request: Request) -> MigrationForm:
    """Parses the form. Raises HTTP 413 or 415, or BadInput FORM_UNREADABLE, ACTION_UNKNOWN or REASON_WRONG."""
    fields = await form_of(request)
    return MigrationForm(one_of(ACTIONS, fields), _reason(fields), number_of(fields, "after", int))


@router.post("/views/{view}/migration")
def change(
    request: Request,
    known: View,
    settings: Platform,
    user: GetUserDep,
    form: Annotated[MigrationForm, Depends(parse_form)],
) -> RedirectResponse:
    """Makes the change in the user's name, and redirects to the page."""
    seen: dict[str, int] = {}
    if form.after is not None and form.action != "rollback":
        _check_route_unchanged(settings, known.name, form.after)
        seen = {"after": form.after}  # which the change's own commit checks, too
    function = _FUNCTIONS.get(form.action, form.action)
    getattr(migration, function)(settings, known.name, by=user.get_name(), why=form.why, **seen)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/views/{known.name}/migration", 303)


def _check_route_unchanged(settings: Settings, view: str, after: int) -> None:
    """Rejects an action that was decided on an outdated route, and says what has changed. Not called for a rollback,
    which is always allowed."""
    now = route_of(settings, view)
    if (now.number if now else 0) == after:
        return
    routes = {route.number: route for route in route_history(settings, view)}
    since = [route for number, route in routes.items() if number > after][-_TOLD:]
    changed = "; then ".join(f"{route} (by {route.changed_by}: {route.why})" for route in since) or str(now)
    raise Conflict(
        "ROUTE_MOVED",
        f"{view}: the route has changed since you looked at it: it was {routes.get(after, 'none')}, then {changed}",
        state="nothing was changed",
        next_step="look at what the page shows now, and decide again",
    )


def _reason(fields: Form) -> str:
    """Returns the reason in one line, because it is shown in tables, notes and logs."""
    why = " ".join(fields.get("why", "").split())
    if not why or len(why) > _LONG or not why.isprintable():
        raise BadInput(
            "REASON_WRONG",
            f"why must be 1 to {_LONG} printable characters",
            state="nothing was changed",
            next_step="give the reason in one line: it is kept for ever in the route's history",
            field="why",
        )
    return why
