"""Links from a task's page to its certificates and the Data Docs."""

from __future__ import annotations

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
    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return page("data_docs/index.html")


def run_page(dag_id: str, run_id: str) -> str:
    """Returns the address of a run's page in Airflow."""
    base: str = conf.get("api", "base_url", fallback="")
    return f"{base.rstrip('/')}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
