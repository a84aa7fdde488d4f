"""The FastAPI application that Airflow's API server mounts at ``/anabranch``. Every request is authorised first.

Settings are read per request, so the server starts without a platform.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from anabranch.apps.web import _files, _migration_actions, _pages, _replay_actions, _reprocess_actions
from anabranch.apps.web._access import may_look
from anabranch.apps.web._failures import Failure, failure_of
from anabranch.apps.web._render import error_page, guarded, login_address
from anabranch.core.errors import AnabranchError

log = logging.getLogger(__name__)
app = FastAPI(title="Anabranch", dependencies=[Depends(may_look)], docs_url=None, redoc_url=None, openapi_url=None)
for actions in (_migration_actions, _replay_actions, _reprocess_actions):
    app.include_router(actions.router)
for router in (_pages.router, _files.router):
    app.include_router(router)


@app.middleware("http")
async def _guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    return guarded(await answer(request))


@app.exception_handler(StarletteHTTPException)
async def _refused(request: Request, error: HTTPException) -> Response:
    """Redirects a person without a login to the login page; a program gets the plain 401."""
    if error.status_code == 401 and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(login_address(request), 303)
    return error_page(request, _refusal(request, error), error.status_code)


def _refusal(request: Request, error: HTTPException) -> Failure:
    if error.status_code != 401:
        return Failure(str(error.detail))
    state = "" if request.method == "GET" else "nothing was changed"
    next_step = "log in to Airflow, here or in another tab, and try again"
    return Failure("you are not logged in (any more)", state=state, next_step=next_step)


@app.exception_handler(RequestValidationError)
async def _no_such_page(request: Request, error: RequestValidationError) -> Response:
    return error_page(request, Failure("there is no such page"), 404)


@app.exception_handler(AnabranchError)
async def _said(request: Request, error: AnabranchError) -> Response:
    failure = failure_of(error)
    return error_page(request, failure, failure.status)


@app.exception_handler(Exception)
async def _unforeseen(request: Request, error: Exception) -> Response:
    """Returns an error page. Starlette logs the error with its traceback."""
    return error_page(request, failure_of(error), 500)
