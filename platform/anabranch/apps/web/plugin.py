"""The plug-in that Airflow finds through the entry point ``airflow.plugins`` of this package."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin
from anabranch.apps.airflow.links import PREFIX


class AnabranchPlugin(AirflowPlugin):
    """Mounts our pages and puts them into the navigation. Only the API server asks for applications; other processes
    never import them."""

    name = "anabranch"
    # Airflow shows it in a frame of its own page, at /plugin/anabranch. Relative: the UI may live below a path.
    external_views = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Anabranch",
            "href": f"{PREFIX.strip('/')}/",
            "destination": "nav",
            "url_route": PREFIX.strip("/"),
            "nav_top_level": True,
            "icon": f"{PREFIX.strip('/')}/static/icon.svg",
        }
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # read when asked for, never set
        from anabranch.apps.web.app import app
        from anabranch.apps.web.pages import warm

        warm()
        return [{"app": app, "url_prefix": PREFIX, "name": "Anabranch"}]
