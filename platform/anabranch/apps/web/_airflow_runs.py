"""The runs that a page shows or starts, through Airflow's public REST API, in the name of the page's reader.

The client is that of the commands; what it sends goes to Airflow's application in this process, with the login of the
request that is being answered. So Airflow itself decides what its user may see or start, and no second address or
password is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypeVar

import anyio
import httpx
from fastapi import Depends, FastAPI, HTTPException, Request

from anabranch.apps.airflow.client import AHEAD_SECONDS, Client
from anabranch.apps.airflow.note_markdown import as_text
from anabranch.apps.web._failures import Failure
from anabranch.change.request_fields import day_range
from anabranch.core.errors import AnabranchError

log = logging.getLogger(__name__)
T = TypeVar("T")
LOGIN_HEADERS = ("authorization", "cookie")
_SHOWN = 5
_SEARCHED = 50
"""How many of a DAG's newest runs are searched."""
RECENT = timedelta(hours=1)
"""A run that has ended is shown for this long."""


@dataclass(frozen=True, slots=True)
class DagRun:
    """A run of a DAG: ``state`` in Airflow's words, ``conf``: its parameters, ``ended``: None while it runs."""

    dag_id: str
    run_id: str
    state: str
    conf: Mapping[str, Any]
    note: str = ""
    ended: datetime | None = None

    @property
    def recent(self) -> bool:
        return self.ended is None or datetime.now(UTC) - self.ended < RECENT


class AirflowApi:
    """Airflow's REST API as the user of one request may use it."""

    def __init__(self, app: FastAPI, login: Mapping[str, str]) -> None:
        self._app, self._login = app, login

    async def recent_runs(self, dag_id: str, concerns: Callable[[Mapping[str, Any]], bool]) -> list[DagRun] | Failure:
        """Returns the runs under way, and those that have ended within ``RECENT``, whose parameters satisfy
        ``concerns``; newest first. Returns none if the user may not see runs, or the DAG doesn't exist."""
        try:
            found = await self._call(lambda client: client.newest_runs(dag_id, _SEARCHED))
            runs = [_run(each) for each in found]
        except Exception as error:  # the rest of the page doesn't depend on it
            status = error.fields.get("status") if isinstance(error, AnabranchError) else None
            if status in (403, 404):
                return []
            log.warning("runs of %s can't be shown", dag_id, exc_info=error)
            why = f"Airflow answered {status}" if status else type(error).__name__
            return Failure(f"the runs of {dag_id} can't be read: {why}")
        return [run for run in runs if run.recent and concerns(run.conf)][:_SHOWN]

    async def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> None:
        """Starts a run, once for each ``run_id``. Raises HTTP 403 without the right, and what the client raises."""
        try:
            await self._call(lambda client: client.create(dag_id, conf, run_id=run_id))
        except AnabranchError as refused:
            if refused.fields.get("status") != 403:
                raise
            why = f"this requires the right to start runs of the DAG {dag_id}; nothing was started"
            raise HTTPException(403, why) from refused

    async def _call(self, ask: Callable[[Client], T]) -> T:
        """The answer of a client, which waits in a thread. Its links are relative to the page's server."""

        def asked() -> T:
            http = httpx.Client(transport=_InProcess(self._app), base_url="http://airflow", headers=self._login)
            with Client("", None, http=http) as client:
                return ask(client)

        return await anyio.to_thread.run_sync(asked, limiter=_THREADS)


_THREADS = anyio.CapacityLimiter(8)
"""Threads that wait for Airflow's answers. They are none of those in which Airflow's own functions answer: if all of
these waited, nobody would."""


class _InProcess(httpx.BaseTransport):
    """An application of this process, asked from a thread of its event loop."""

    def __init__(self, app: FastAPI) -> None:
        self._asgi = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return anyio.from_thread.run(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._asgi.handle_async_request(request)
        parts = [part async for part in answer.aiter_raw()]
        return httpx.Response(answer.status_code, headers=answer.headers, content=b"".join(parts))


def airflow_app() -> FastAPI:
    from airflow.api_fastapi.main import app  # the API server has loaded it; elsewhere this would start one

    return app


def airflow_api(request: Request, app: Annotated[FastAPI, Depends(airflow_app)]) -> AirflowApi:
    return AirflowApi(app, {name: request.headers[name] for name in LOGIN_HEADERS if name in request.headers})


Airflow = Annotated[AirflowApi, Depends(airflow_api)]


def rebuilds(version: int, day: date) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a reprocess with these parameters names the day of this version."""

    def concerns(conf: Mapping[str, Any]) -> bool:
        try:
            given = day_range(conf)
        except AnabranchError:
            return False
        return given is not None and given[0] <= day <= given[1] and conf.get("version", version) == version

    return concerns


def _run(found: Mapping[str, Any]) -> DagRun:
    ended = datetime.fromisoformat(found["end_date"]) if found["end_date"] else None
    note = as_text(found.get("note") or "")
    dated = datetime.fromisoformat(found["run_after"]) if found.get("run_after") else None
    if ended is None and dated and (dated - datetime.now(UTC)).total_seconds() > AHEAD_SECONDS:
        note = (
            f"stands still until {dated:%Y-%m-%d %H:%M} UTC: Airflow's clock was set back; delete it and start it again"
        )
    return DagRun(found["dag_id"], found["dag_run_id"], found["state"], found["conf"] or {}, note, ended)
