"""The page's application as Airflow mounts it, with users of Airflow's own auth manager and without its database."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from anabranch.core.settings import Settings
from fastapi import FastAPI, HTTPException

from support.processes import eventually

with warnings.catch_warnings():  # it would rather have httpx2, which Airflow doesn't bring
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

# Airflow would set up logging and a database in the home of whoever runs the tests. What it is told ends with its
# import: system tests start an Airflow of their own from this process's environment.
with pytest.MonkeyPatch.context() as patched:
    folder = tempfile.mkdtemp(prefix="anabranch-test-airflow-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    patched.setenv("_AIRFLOW__AS_LIBRARY", "1")
    patched.setenv("AIRFLOW_HOME", folder)
    from anabranch.apps.web import _airflow_runs, _pages
    from anabranch.apps.web._app import app

__all__ = ["Become", "TestClient", "mount", "serving"]
Become = Callable[[str | None], None]
"""Makes everybody who asks a user of this role ("VIEWER", "USER", "NOBODY"), or somebody without a login (None)."""


def mount(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, airflow: FastAPI | None = None
) -> tuple[FastAPI, Become]:
    """The server, until ``monkeypatch`` ends, and what says who asks. ``airflow``: answers in place of Airflow's REST
    API; by default it knows no DAG."""
    from airflow.api_fastapi.app import _AuthManagerState
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models.dag import DagModel
    from anabranch.apps.web._dirty_days import Lookup, LookupResult

    manager = SimpleAuthManager()  # type: ignore[no-untyped-call]  # Airflow declares no types for it
    monkeypatch.setattr(_AuthManagerState, "instance", manager)
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None)
    monkeypatch.setattr(_pages, "LOOKUP", Lookup(find=lambda settings, keys: {key: LookupResult() for key in keys}))
    monkeypatch.setattr(app, "dependency_overrides", {})
    airflow = airflow or FastAPI()
    server = FastAPI()
    server.mount("/anabranch", app)

    def become(role: str | None) -> None:
        def user() -> SimpleAuthManagerUser:
            if role is None:
                raise HTTPException(401, "Not authenticated")
            return SimpleAuthManagerUser(username="anna", role=None if role == "NOBODY" else role)

        app.dependency_overrides = {
            _pages.platform: lambda: settings,
            _airflow_runs.airflow_app: lambda: airflow,
            get_user: user,
        }

    return server, become


@contextmanager
def serving(server: FastAPI, port: int = 0) -> Iterator[str]:
    """Its address on loopback, as long as it runs."""
    running = uvicorn.Server(
        uvicorn.Config(
            server,
            host="127.0.0.1",
            port=port,
            log_level="error",
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=running.run, name="page-app", daemon=True)
    thread.start()
    try:
        eventually(lambda: running.started, 20)
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(30)
