"""The page's application as Airflow mounts it, with users of Airflow's own auth manager and without its database."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from anabranch.core.settings import Settings
from fastapi import FastAPI, HTTPException
from paged import Login

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
    from anabranch.apps.web import pages
    from anabranch.apps.web.app import app


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", project=tmp_path / "project")


@pytest.fixture
def login(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    """A client for a user of this role ("VIEWER", "USER", "NOBODY"), or for somebody without a login (None)."""
    from airflow.api_fastapi.app import _AuthManagerState
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models.dag import DagModel
    from anabranch.apps.web.dirty_days import Lookup, LookupResult

    monkeypatch.setattr(_AuthManagerState, "instance", SimpleAuthManager())
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None)
    monkeypatch.setattr(pages, "LOOKUP", Lookup(find=lambda settings, keys: {key: LookupResult() for key in keys}))
    server = FastAPI()
    server.mount("/anabranch", app)

    def as_user(role: str | None) -> TestClient:
        def user() -> SimpleAuthManagerUser:
            if role is None:
                raise HTTPException(401, "Not authenticated")
            return SimpleAuthManagerUser(username="anna", role=None if role == "NOBODY" else role)

        app.dependency_overrides = {pages.platform: lambda: settings, get_user: user}
        return TestClient(server, base_url="http://airflow.test", follow_redirects=False)

    yield as_user
    app.dependency_overrides = {}


@pytest.fixture
def client(login: Login) -> TestClient:
    """Somebody who may do everything that the page offers."""
    return login("USER")
