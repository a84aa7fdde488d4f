"""Links from a task's page to its certificates, its checks and the view's replays."""

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


def verdict_page(plan: Mapping[str, Any]) -> str:
    """Returns the address of the verdict on a run's build, which has the results of its checks."""
    return page(f"verdicts/{quote(plan['view'])}/{int(plan['version'])}/{quote(plan['run'])}")


class CertificatesLink(BaseOperatorLink):
    """Links to the verdict on the build that this task made or compared."""

    name = "Certificates"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return verdict_page(operator.planned)


class ChecksLink(BaseOperatorLink):
    """Links to the checks of this run."""

    name = "Checks"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return f"{verdict_page(operator.planned)}#checks"


class ReplaysLink(BaseOperatorLink):
    """Links to the replays of the view: a replay has no verdict."""

    name = "Replays"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return page(f"views/{quote(operator.planned['view'])}/replays")


def run_page(dag_id: str, run_id: str) -> str:
    """Returns the address of a run's page in Airflow."""
    base: str = conf.get("api", "base_url", fallback="")
    return f"{base.rstrip('/')}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
