"""Who may look at the pages, and who may change what they show: Airflow's own users and rights.

Looking takes the right to read DAGs; changing takes what Airflow itself asks before it edits a run of the DAG that
carries it out. A page of another site can't use a reader's cookie to change anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, bearer_scheme
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials

MIGRATE = "migrate"
REPLAY = "replay"
"""The DAGs that carry migrations and replays out."""


def may_look(user: GetUserDep) -> None:
    """HTTP 401 without a login, 403 without the right."""
    if not get_auth_manager().is_authorized_dag(method="GET", user=user):
        raise HTTPException(403, "this page is for users who may read DAGs")


@dataclass(frozen=True, slots=True)
class MayEdit:
    """Whether a user may edit runs of a DAG, and so may steer by hand what they do."""

    dag: str

    def __call__(self, user: GetUserDep) -> bool:
        details = DagDetails(id=self.dag, team_name=DagModel.get_team_name(self.dag))
        allowed: bool = get_auth_manager().is_authorized_dag(
            method="PUT", access_entity=DagAccessEntity.RUN, details=details, user=user
        )
        return allowed


@dataclass(frozen=True, slots=True)
class Edits:
    """HTTP 403 for anybody else."""

    dag: str

    def __call__(self, user: GetUserDep) -> None:
        if not MayEdit(self.dag)(user):
            raise HTTPException(403, f"this takes the right to edit runs of the DAG {self.dag}; nothing was changed")


def from_our_page(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]
) -> None:
    """HTTP 403 where a browser has sent the cookie along with a request of another site, or doesn't say of whose.

    A token in the header was put there by whoever holds it: a browser adds none by itself. What a browser says of the
    origin no page can forge; ``Sec-Fetch-Site`` is missing on plain HTTP, where ``Origin`` stands alone.
    """
    if bearer is not None and bearer.scheme.lower() == "bearer":
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    if site != "same-origin" and (site is not None or not _is_ours(request, origin)):
        raise HTTPException(403, "changes are taken from this page itself only; nothing was changed")


def _is_ours(request: Request, origin: str) -> bool:
    """A proxy may have changed the host that this server sees: then it is the one of Airflow's base address."""
    host, base = request.headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="") or "")
    known = {f"http://{host}", f"https://{host}"} if host else set()
    return origin in known | {f"{base.scheme}://{base.netloc}" if base.netloc else "nowhere"}
