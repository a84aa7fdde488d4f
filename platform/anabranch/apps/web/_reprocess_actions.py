"""The form that does days again: it starts a run of the view's reprocess DAG. POST only, from our own page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

from anabranch.apps.web._access import from_our_page
from anabranch.apps.web._airflow_runs import Airflow
from anabranch.apps.web._forms import Form, form_of
from anabranch.apps.web._pages import ReprocessDag, View
from anabranch.change.request_fields import day_range
from anabranch.core.errors import BadInput

router = APIRouter(dependencies=[Depends(from_our_page)])
_ONCE = re.compile("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class ReprocessForm:
    """The form's fields: days, both inclusive, and the key of this rendering of the form, which makes a form that is
    sent twice one run."""

    first: str
    last: str
    once: str


async def parse_form(request: Request) -> ReprocessForm:
    """Parses the form. Raises HTTP 413 or 415, or BadInput with the field that is wrong."""
    return _parsed(await form_of(request))


@router.post("/views/{view}/v{version}/{partition}")
async def reprocess(
    request: Request,
    known: View,
    version: int,
    partition: str,
    airflow: Airflow,
    dag: ReprocessDag,
    form: Annotated[ReprocessForm, Depends(parse_form)],
) -> RedirectResponse:
    """Starts the run in the user's name, and redirects to the page, which shows it. Airflow checks the user's right."""
    if version not in known.declared:
        raise HTTPException(404, f"{known.name} v{version} is not declared, so no DAG rebuilds it")
    conf = {"from": form.first, "to": form.last, "version": version}
    await airflow.start(dag, f"page__{form.once}", conf)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/views/{known.name}/v{version}/{partition}", 303)


def _parsed(fields: Form) -> ReprocessForm:
    given = day_range(fields)
    if given is None:
        raise BadInput(
            "RANGE_OPEN", "no day is given", state="nothing was started", next_step="give From, and To", field="from"
        )
    once = fields.get("once", "")
    if not _ONCE.fullmatch(once):
        raise BadInput(
            "FORM_UNREADABLE",
            "this is not a form of this page",
            state="nothing was started",
            next_step="use the page's button",
        )
    first, last = given
    return ReprocessForm(f"{first}", f"{last}", once)
