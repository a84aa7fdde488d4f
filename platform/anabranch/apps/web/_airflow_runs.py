"""The runs that a page shows or starts, through Airflow's public REST API, in the name of the page's reader.

The API is called within this process, with the login of the request that is being answered. So Airflow itself decides
what its user may see or start, and no second address or password is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, HTTPException, Request

from anabranch.apps.airflow.client import dag_paused, error_detail, path_part
from anabranch.apps.web._failures import Failure
from anabranch.change.request_fields import day_range
from anabranch.core.errors import AnabranchError, BadInput

log = logging.getLogger(__name__)
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
            answer = await self._send("GET", f"/dags/{path_part(dag_id)}/dagRuns?order_by=-run_after&limit={_SEARCHED}")
            if answer.status_code in (403, 404):
                return []
            if not answer.is_success:
                return Failure(f"the runs of {dag_id} can't be read: Airflow answered {answer.status_code}")
            runs = [_run(each) for each in answer.json()["dag_runs"]]
        except Exception as error:  # the rest of the page doesn't depend on it
            log.warning("runs of %s can't be shown", dag_id, exc_info=error)
            return Failure(f"the runs of {dag_id} can't be read: {type(error).__name__}")
        return [run for run in runs if run.recent and concerns(run.conf)][:_SHOWN]

    async def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> None:
        """Starts a run, once for each ``run_id``. Raises HTTP 403 without the right, BadInput PARAMETERS_REFUSED,
        Conflict DAG_PAUSED."""
        found = await self._send("GET", f"/dags/{path_part(dag_id)}")
        if found.is_success and found.json().get("is_paused"):
            raise dag_paused(dag_id, f"/dags/{path_part(dag_id)}")
        body = {"logical_date": None, "dag_run_id": run_id, "conf": conf}
        answer = await self._send("POST", f"/dags/{path_part(dag_id)}/dagRuns", body)
        if answer.is_success or answer.status_code == 409:
            return
        if answer.status_code == 403:
            raise HTTPException(403, f"this requires the right to start runs of the DAG {dag_id}; nothing was started")
        raise BadInput(
            "PARAMETERS_REFUSED",
            f"Airflow answered {answer.status_code}: {error_detail(answer)}",
            state="no run was started",
            next_step=f"open the DAG {dag_id} in Airflow: it says whether it can be run",
        )

    async def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow", headers=self._login) as http:
            return await http.request(method, f"/api/v2{path}", json=body)


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
    return DagRun(
        found["dag_id"], found["dag_run_id"], found["state"], found["conf"] or {}, found.get("note") or "", ended
    )
