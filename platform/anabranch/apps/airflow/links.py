"""Links from a task's page to its certificates, its Data Docs and the view's replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

PREFIX = "/anabranch"
"""The path of the plug-in's pages on Airflow's own server."""


def page(path: str) -> str:
    """Returns the full address of one of our pages."""
    base: str = conf.get("api", "base_url", fallback="")
    return f"{base.rstrip('/')}{PREFIX}/{path}"


class CertificatesLink(BaseOperatorLink):
    """Links to the verdict on the build that this task made or compared."""

    name = "Certificates"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        plan = operator.planned
        return page(f"verdicts/{quote(plan['view'])}/{int(plan['version'])}/{quote(plan['run'])}")


class DataDocsLink(BaseOperatorLink):
    """Links to the Data Docs of this task's run; they are there once its build was published or refused."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return page(docs_path(operator.planned))


class ReplaysLink(BaseOperatorLink):
    """Links to the replays of the view: a replay has no verdict."""

    name = "Replays"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return page(f"views/{quote(operator.planned['view'])}/replays")


def docs_path(plan: Mapping[str, Any]) -> str:
    """Returns the path of a run's Data Docs below our pages."""
    return f"data_docs/{quote(plan['view'])}/v{int(plan['version'])}/{quote(plan['run'])}/index.html"
