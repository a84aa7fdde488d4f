"""Requests to Airflow's public REST API: the login, the addresses of runs, and the errors of what it answers."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from anabranch.core.airflow_settings import on_this_machine
from anabranch.core.errors import AnabranchError, BrokenState, TryAgain

_Flow = Generator[httpx.Request, httpx.Response, None]


class Login(httpx.Auth):
    """A name and a password, exchanged for a token; and for another one whenever Airflow refuses that."""

    requires_response_body = True

    def __init__(self, address: str, user: str, password: str) -> None:
        self._address = f"{address}/auth/token"
        self._login = {"username": user, "password": password}
        self._header = ""

    def auth_flow(self, request: httpx.Request) -> _Flow:
        """Yields what has to be sent. Raises what ``content`` raises if Airflow gives no token."""
        if not self._header:
            yield from self._renewed(request)
        request.headers["authorization"] = self._header
        if _token_refused((yield request)):
            yield from self._renewed(request)
            request.headers["authorization"] = self._header
            yield request

    def _renewed(self, request: httpx.Request) -> _Flow:
        self._header = ""
        # The time-out is one of the request's extensions: without them this request would wait for ever.
        answer = yield httpx.Request("POST", self._address, json=self._login, extensions=request.extensions)
        self._header = f"Bearer {content(answer)['access_token']}"


class RestApi:
    """The API at one address. ``login``: a name and a password; ``http`` sends everything, and is closed with this: by
    default one that is made for the address. ``timeout``: seconds."""

    def __init__(
        self, address: str, login: tuple[str, str] | None, timeout: float = 30.0, *, http: httpx.Client | None = None
    ) -> None:
        self.address = address.rstrip("/")
        self._login = Login(self.address, *login) if login is not None else None
        self._http = http or httpx.Client(base_url=self.address, timeout=timeout, mounts=_without_proxy(self.address))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        """Returns the JSON answer to a GET below ``/api/v2``."""
        return content(self.send("GET", path))

    def post(self, path: str, body: Any) -> Any:
        """Returns the JSON answer to a POST below ``/api/v2``. Not idempotent: a repeat may start something twice."""
        return content(self.send("POST", path, body))

    def authorisation(self) -> dict[str, str]:
        """Returns the header with which another HTTP client is authorised as this user."""
        return {"authorization": self.send("GET", "/version").request.headers["authorization"]}

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Any answer to a request below ``/api/v2``. Raises TryAgain AIRFLOW_UNREACHABLE if there is none."""
        try:
            return self._http.request(method, "/api/v2" + path, json=body, auth=self._login)
        except httpx.TransportError as error:
            raise TryAgain(
                "AIRFLOW_UNREACHABLE",
                f"Airflow at {self.address} doesn't answer: {error}",
                next_step="anabranch status, anabranch up",
            ) from error


def _without_proxy(address: str) -> dict[str, None]:
    """Says to httpx that no proxy of the environment gets what is for a server on this machine."""
    return {f"all://{httpx.URL(address).netloc.decode()}": None} if on_this_machine(address) else {}


def content(answer: httpx.Response) -> Any:
    """The JSON of an answer. Raises BrokenState AIRFLOW_REFUSED if it is an error, TryAgain if one of the server."""
    if answer.is_success:
        return answer.json()
    kind: type[AnabranchError] = TryAgain if answer.status_code >= 500 else BrokenState
    raise kind(
        "AIRFLOW_REFUSED",
        f"Airflow answered {answer.status_code} to {answer.request.method} {answer.request.url.path}: "
        f"{error_detail(answer)}",
        next_step="read the api-server's log",
        status=answer.status_code,
    )


def error_detail(answer: httpx.Response) -> str:
    """What Airflow says is wrong, in one line."""
    try:
        detail = answer.json().get("detail", answer.text)
    except (ValueError, AttributeError):
        detail = answer.text
    return str(detail).split("\n")[0][:500]


def _token_refused(answer: httpx.Response) -> bool:
    """Whether it was the token, not what was asked: it has run out, or was given out when the clock was ahead, and is
    not valid yet. A request that is refused so has done nothing."""
    return answer.status_code == 401 or (answer.status_code == 403 and "Invalid JWT token" in answer.text)


def dag_path(dag_id: str) -> str:
    return f"/dags/{path_part(dag_id)}"


def run_path(dag_id: str, run_id: str, task: str = "") -> str:
    of_task = f"/taskInstances/{path_part(task)}" if task else ""
    return f"{dag_path(dag_id)}/dagRuns/{path_part(run_id)}{of_task}"


def path_part(name: str) -> str:
    """Quotes any name as one path segment. A name of dots only, like ``..``, would otherwise leave the path."""
    return quote(name, safe="").replace(".", "%2E") if not name.strip(".") else quote(name, safe="")
