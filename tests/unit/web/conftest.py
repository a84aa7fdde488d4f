"""Clients of the page's application."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.core.settings import Settings
from support.page_app import TestClient, mount
from support.page_data import Login


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", project=tmp_path / "project")


@pytest.fixture
def login(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Login:
    """A client for a user of this role ("VIEWER", "USER", "NOBODY"), or for somebody without a login (None)."""
    server, become = mount(settings, monkeypatch)

    def as_user(role: str | None) -> TestClient:
        become(role)
        return TestClient(server, base_url="http://airflow.test", follow_redirects=False)

    return as_user


@pytest.fixture
def client(login: Login) -> TestClient:
    """Somebody who may do everything that the page offers."""
    return login("USER")
