"""The Airflow plug-in, found through the entry point ``airflow.plugins`` of this package."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from anabranch.apps.airflow.links import PREFIX


class AnabranchPlugin(AirflowPlugin):
    """Mounts our pages and adds them to the navigation. Only the API server reads ``fastapi_apps``; other processes
    never import the pages."""

    name = "anabranch"
    # Airflow shows it in an iframe at /plugin/anabranch. Relative, because the UI may be served below a path.
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
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow only reads it
        from anabranch.apps.web._app import app
        from anabranch.apps.web._pages import warm

        warm()
        return [{"app": app, "url_prefix": PREFIX, "name": "Anabranch"}]
