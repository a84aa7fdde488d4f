"""The plug-in that Airflow finds through the entry point ``airflow.plugins`` of this package."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from anabranch.airflow.links import PREFIX


class AnabranchPlugin(AirflowPlugin):
    """Mounts our pages. Only the API server asks for applications; other processes never import them."""

    name = "anabranch"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # read when asked for, never set
        from anabranch.airflow.pages import app

        return [{"app": app, "url_prefix": PREFIX, "name": "Anabranch"}]
