"""Authorisation of the pages, by Airflow's own users and rights.

Reading requires the right to read DAGs. Changes require the right that Airflow requires for editing a run of the DAG
that does the work. A page of another site can't use a user's cookie to change anything (CSRF).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, bearer_scheme
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials

MIGRATE = "migrate"
REPLAY = "replay"
"""The DAGs that run migrations and replays."""


def may_look(user: GetUserDep) -> None:
    """Raises HTTP 401 without a login, 403 without the right."""
    if not get_auth_manager().is_authorized_dag(method="GET", user=user):
        raise HTTPException(403, "this page requires the right to read DAGs")


@dataclass(frozen=True, slots=True)
class MayEdit:
    """Whether a user may edit runs of a DAG, and so may control what they do."""

    dag: str

    def __call__(self, user: GetUserDep) -> bool:
        return _may(user, "PUT", self.dag)


def may_start(user: BaseUser, dag: str) -> bool:
    """Whether a user may start runs of a DAG."""
    return _may(user, "POST", dag)


def _may(user: BaseUser, method: ResourceMethod, dag: str) -> bool:
    details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
    allowed: bool = get_auth_manager().is_authorized_dag(
        method=method, access_entity=DagAccessEntity.RUN, details=details, user=user
    )
    return allowed


@dataclass(frozen=True, slots=True)
class RequireEdit:
    """Raises HTTP 403 unless the user may edit runs of the DAG."""

    dag: str

    def __call__(self, user: GetUserDep) -> None:
        if not MayEdit(self.dag)(user):
            raise HTTPException(403, f"this requires the right to edit runs of the DAG {self.dag}; nothing was changed")


def from_our_page(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]
) -> None:
    """Raises HTTP 403 if a browser sent the cookie with a request of another site, or doesn't say which site.

    A bearer token is accepted: a browser never adds one by itself. A page can't forge ``Sec-Fetch-Site`` or ``Origin``;
    on plain HTTP only ``Origin`` is sent.
    """
    if bearer is not None and bearer.scheme.lower() == "bearer":
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    if site != "same-origin" and (site is not None or not _is_ours(request, origin)):
        raise HTTPException(403, "changes are accepted only from this page; nothing was changed")


def _is_ours(request: Request, origin: str) -> bool:
    """Whether the origin is this server, or Airflow's base address (a proxy may change the host that we see)."""
    host, base = request.headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="") or "")
    known = {f"http://{host}", f"https://{host}"} if host else set()
    return origin in known | {f"{base.scheme}://{base.netloc}" if base.netloc else "nowhere"}
