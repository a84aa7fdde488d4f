"""Notifiers of the settings: each is called once with the note, and one that fails keeps no other from it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk import DAG
from anabranch.apps.airflow.notifiers import notify
from anabranch.core.airflow_settings import Notifier
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings, load_settings
from support.outside_servers import posts, refusing

pytestmark = pytest.mark.unit
WEBHOOK = "anabranch.apps.airflow.notifiers.WebhookNotifier"
NOTE = "Failed in plan: {{ 7 * 7 }}"


def context() -> Any:
    return {"dag": DAG("reprocess_delays", schedule=None), "run_id": "manual/1"}


def given(*notifiers: tuple[str, dict[str, Any]]) -> Settings:
    made = [Notifier(notifier=name, arguments=arguments) for name, arguments in notifiers]
    return Settings().model_copy(update={"notifiers": made})


def test_a_webhook_gets_the_note_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow:8080/")
    with posts() as (address, taken):
        notify(given((WEBHOOK, {"url": address})), context(), NOTE)
    assert taken == [
        {
            "text": f"reprocess_delays: {NOTE}",
            "note": NOTE,
            "dag_id": "reprocess_delays",
            "run_id": "manual/1",
            "run_url": "http://airflow:8080/dags/reprocess_delays/runs/manual%2F1",
        }
    ]


def test_one_that_fails_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    with posts() as (address, taken), caplog.at_level(logging.ERROR):
        broken: list[tuple[str, dict[str, Any]]]
        broken = [("no.such.Notifier", {}), (WEBHOOK, {"nonsense": 1}), (WEBHOOK, {"url": "http://127.0.0.1:9/"})]
        notify(given(*broken, (WEBHOOK, {"url": address})), context(), NOTE)
    assert len(taken) == 1
    said = [record.getMessage() for record in caplog.records]
    failed = [text.split(" failed")[0] for text in said if "nobody was" in text]
    assert failed == ["no.such.Notifier", WEBHOOK, WEBHOOK]


@pytest.mark.parametrize(
    "value", ["no list", '[{"notifier": "os"}]', '[{"notifier": "a.B", "arguments": {"smtp_password": "x"}}]']
)
def test_a_setting_that_is_none_or_holds_a_secret_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANABRANCH_NOTIFIERS", value)
    with pytest.raises(BadInput) as refused:
        load_settings()
    assert refused.value.code == "SETTINGS_REFUSED"
    assert "x" not in refused.value.what.split()


def test_the_setting_reaches_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.operate.runtime.environment import environment

    settings = given((WEBHOOK, {"url": "{{ conn.oncall.host }}", "text": 'quote " and $HOME'}))
    settings = settings.model_copy(update={"airflow_logins": {"anna": "op"}})
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/services/SECRET", "nonsense://SECRET", None])
def test_an_address_that_may_be_a_secret_is_not_logged(caplog: pytest.LogCaptureFixture, url: str | None) -> None:
    with refusing() as address, caplog.at_level(logging.ERROR):
        notify(given((WEBHOOK, {"url": url or f"{address}/SECRET"})), context(), NOTE)
    assert "nobody was notified by it" in caplog.text
    assert "SECRET" not in caplog.text
    assert url or "the webhook answered 500" in caplog.text
