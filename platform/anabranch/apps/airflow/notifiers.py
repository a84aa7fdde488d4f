"""Calls the notifiers of the settings when a run has failed (``ANABRANCH_NOTIFIERS``), and a notifier that posts to a
webhook. In templates of a notifier's arguments, ``note`` is the run's note: what failed, the state, the next step."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier

from anabranch.core.airflow_settings import Notifier
from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 10.0


def notify(settings: Settings, context: Context, note: str) -> None:
    """Calls each notifier once. One that fails is logged; it changes nothing for the others, or for the run."""
    given: Any = context
    given["note"] = note
    for each in settings.notifiers:
        try:
            notifier_of(each)(given)
            log.info("%s was called", each.notifier)
        except Exception as error:  # notifiers are other people's code
            log.error("%s failed, so nobody was notified by it: %s: %s", each.notifier, type(error).__name__, error)


def notifier_of(given: Notifier) -> BaseNotifier:
    """Imports the notifier's class. Raises ImportError, AttributeError or TypeError."""
    module, _, name = given.notifier.rpartition(".")
    made: BaseNotifier = getattr(import_module(module), name)(**given.arguments)
    return made


class WebhookNotifier(BaseNotifier):
    """Posts ``{"text", "note", "dag_id", "run_id", "run_url"}`` as JSON to ``url``. ``text`` is what Slack, Mattermost
    and Teams show.

    An address that is a secret belongs into a connection of Airflow: ``url="{{ conn.oncall.host }}"``.
    """

    template_fields: Sequence[str] = ("url", "text")

    def __init__(self, url: str, text: str = "{{ dag.dag_id }}: {{ note }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.text = text

    def notify(self, context: Context) -> None:
        import httpx

        body = {"text": self.text, **_facts(context)}
        try:
            answer = httpx.post(self.url, json=body, timeout=TIMEOUT_SECONDS)
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text may hold the address, which may be a secret
            raise RuntimeError(f"the webhook can't be reached ({type(error).__name__})") from None
        if not answer.is_success:
            raise RuntimeError(f"the webhook answered {answer.status_code}")


def _facts(context: Any) -> dict[str, str]:
    from anabranch.apps.airflow.links import run_page

    dag_id, run_id = context["dag"].dag_id, context["run_id"]
    return {"note": context.get("note", ""), "dag_id": dag_id, "run_id": run_id, "run_url": run_page(dag_id, run_id)}
