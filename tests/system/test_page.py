"""The page in Airflow's own server: who gets in, what is there, and where the navigation leads."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from anabranch.apps.airflow.client import Client
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings
from anabranch.operate.runtime.secret_files import airflow_login
from support.processes import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(3_600)]
A_BROWSER = {"accept": "text/html"}


@pytest.fixture(scope="module")
def address(platform: Settings) -> str:
    return airflow_address(platform)


@pytest.fixture(scope="module")
def cookie(platform: Settings, address: str) -> Iterator[httpx.Client]:
    """A browser that is logged in: it has the token as a cookie."""
    with Client(address, airflow_login(platform)) as api:
        token = api.authorisation()["authorization"].removeprefix("Bearer ")
    with httpx.Client(base_url=address, cookies={"_token": token}, headers=A_BROWSER, timeout=30) as browser:
        yield browser


def test_without_a_login_there_is_nothing_to_see(address: str) -> None:
    form = {"action": "halt", "why": "so"}
    with httpx.Client(base_url=address, timeout=30) as nobody:  # the first request of a server takes seconds
        assert nobody.get("/anabranch/").status_code == 401
        led = nobody.get("/anabranch/", headers=A_BROWSER)
        assert led.status_code == 303
        assert nobody.get(led.headers["location"], follow_redirects=True).status_code == 200
        assert nobody.post("/anabranch/views/departure_delays/migration", data=form).status_code == 401


def test_every_declared_view_is_there_as_soon_as_its_stream_runs(cookie: httpx.Client) -> None:
    def level() -> str | None:
        page = cookie.get("/anabranch/").text
        return page if page.count("running") >= 3 else None

    page = eventually(level, 120)
    for view in ("departure_delays", "route_day", "aircraft_now"):
        assert f'href="/anabranch/views/{view}"' in page
        assert cookie.get(f"/anabranch/views/{view}").status_code == 200


def test_the_navigation_leads_to_it(cookie: httpx.Client) -> None:
    """Airflow's interface puts what this answer names into its navigation."""
    plugins = {plugin["name"]: plugin for plugin in cookie.get("/api/v2/plugins").json()["plugins"]}
    (view,) = plugins["anabranch"]["external_views"]
    assert (view["destination"], view["nav_top_level"]) == ("nav", True)
    for address in (view["href"], view["icon"]):
        assert cookie.get(f"/{address}").status_code == 200


def test_a_cookie_alone_changes_nothing(cookie: httpx.Client, address: str) -> None:
    """403 before anything is asked about a migration; from the page itself the answer is that there is none."""
    page, form = "/anabranch/views/departure_delays/migration", {"action": "halt", "why": "so"}
    assert cookie.post(page, data=form).status_code == 403
    assert cookie.post(page, data=form, headers={"origin": "http://evil.test"}).status_code == 403
    answer = cookie.post(page, data=form, headers={"origin": address})
    assert answer.status_code == 409
    assert "NOT_MOVING" in answer.text
