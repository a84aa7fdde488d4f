"""What the system tests share: the whole platform, stopped by its records."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.airflow_settings import Notifier
from anabranch.core.settings import Settings, load_settings
from anabranch.operate.runtime import lifecycle
from anabranch_samples.demo.change import own_project
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace
from pydantic import SecretStr
from support.outside_servers import Outside, mails, posts
from support.processes import eventually
from support.secret_scan import Secrets
from support.sent_records import landed
from support.small_platform import DAYS, Clinic, departed
from support.tls_authority import Authority, authority

LINES_OF_A_PAGE = 25
LOGINS = {"vera": "viewer", "ulla": "user", "olga": "op"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A test that fails in a browser says what was to be seen there."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None and hasattr(report.longrepr, "addsection"):
        for frame in page.frames:
            try:
                lines = frame.inner_text("body", timeout=2_000).splitlines()
            except Exception as error:  # a closed page; the test's own failure must not be lost
                lines = [str(error)]
            seen = "\n".join(line for line in lines if line.strip())
            report.longrepr.addsection(f"seen at {frame.url}", "\n".join(seen.splitlines()[:LINES_OF_A_PAGE]))
    return report


@pytest.fixture(scope="session")
def planted() -> Secrets:
    """Passwords that nobody would write by chance."""
    return Secrets({name: f"planted-{secrets.token_hex(16)}" for name in ("anna", "reader")})


@pytest.fixture(scope="session")
def planted_around() -> Secrets:
    """Logins of the platform, and what the shell that starts it holds for other programs."""
    names = ("registry", "amqp", "connection", "token")
    return Secrets({name: f"planted-{name}-{secrets.token_hex(16)}" for name in names})


@pytest.fixture(scope="session")
def with_logins(planted_around: Secrets, free_port: Callable[[], int]) -> dict[str, Any]:
    """Settings of servers that nobody asks, with their passwords."""
    registry = {"schema_registry_url": "https://registry.invalid", "schema_registry_user": "anna"}
    amqp = {"amqp_url": f"amqp://anna@127.0.0.1:{free_port()}"}
    passwords = {"schema_registry_password": "registry", "amqp_password": "amqp"}
    return registry | amqp | {name: SecretStr(planted_around.known[which]) for name, which in passwords.items()}


@pytest.fixture(scope="session")
def full_shell(planted_around: Secrets) -> Iterator[None]:
    """The environment of who starts a platform. With SPT_NOENV the titles of Airflow's processes leave
    what /proc says of their environments alone."""
    mail = {"conn_type": "smtp", "password": planted_around.known["connection"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_PLANTED", json.dumps(mail))
        patch.setenv("GITHUB_TOKEN", planted_around.known["token"])
        patch.setenv("SPT_NOENV", "1")
        yield


@pytest.fixture(scope="session")
def trusted(own_home: Path) -> Authority:
    return authority(own_home, "trusted")


@pytest.fixture(scope="session")
def guarded(own_settings: Callable[[str], Settings], planted: Secrets, trusted: Authority) -> Iterator[Settings]:
    """A real broker that takes a login, over TLS; and the settings of its user, whose password is in a file."""
    plain = own_settings("guarded")
    folder = trusted.file.parent
    password = folder / "password"
    password.write_text(planted.known["anna"])
    with planted.watched():
        login = {"kafka_user": "anna", "kafka_password_file": password, "kafka_ca": trusted.file}
        certificate = trusted.sign(folder / "broker.pem", "127.0.0.1")
        given = plain.model_dump(exclude={"kafka_password"}) | login | {"kafka_certificate": certificate}
        with lifecycle.running(load_settings(**given), ["kafka"]) as settings:
            yield settings
    assert planted.seen == set()


@pytest.fixture(scope="session")
def platform(
    own_settings: Callable[[str], Settings], with_logins: dict[str, Any], full_shell: None
) -> Iterator[Settings]:
    """Everything, shared by the session, over a copy of the project, so that a test can deploy into it. In small
    epochs: an event is late only after an epoch that was further. Three days of departures are too many to be
    reprocessed unasked."""
    few = {"max_offsets_per_trigger": 2_000, "approval_events": 2_300, "pass_env": ("SPT_NOENV",), **with_logins}
    with lifecycle.running(own_project(own_settings("platform").model_copy(update=few))) as settings:
        yield settings


@pytest.fixture(scope="session")
def outside() -> Iterator[Outside]:
    """Where notifiers of the next fixture's platform send to."""
    with posts() as (hook, posted), mails() as (port, mailed):
        yield Outside(hook, posted, port, mailed)


@pytest.fixture(scope="session")
def airflow_alone(own_settings: Callable[[str], Settings], outside: Outside) -> Iterator[Settings]:
    """Airflow without streams, beside a lake in which two days of departures have landed and one is published; with
    logins of all roles, notifiers, and DAGs of other people that wait for a view."""
    mail: dict[str, Any] = {"conn_type": "smtp", "host": "127.0.0.1", "port": outside.mail_port}
    mail["extra"] = {"disable_ssl": True, "disable_tls": True, "from_email": "anabranch@localhost"}
    to_us = {"to": "oncall@localhost", "subject": "{{ dag.dag_id }} failed", "html_content": "{{ note | e }}"}
    notifiers = [
        Notifier(notifier="anabranch.apps.airflow.notifiers.WebhookNotifier", arguments={"url": outside.hook}),
        Notifier(notifier="airflow.providers.smtp.notifications.smtp.SmtpNotifier", arguments=to_us),
    ]
    settings = own_project(
        own_settings("airflow").model_copy(update={"notifiers": notifiers, "airflow_logins": LOGINS})
    )
    (settings.project / "dags" / "waiting.py").write_text((Path(__file__).parent / "waiting_dags.py").read_text())
    clinic = Clinic(settings)
    clinic.land([departed(1, DAYS[0]), departed(2, DAYS[1])])
    clinic.speed(DAYS[:2])
    clinic.reprocess("first", DAYS[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(mail))
        with lifecycle.running(settings, ["airflow"]):
            yield settings


@pytest.fixture(scope="session")
def three_days() -> Callable[[Settings], int]:
    """Sends the flights of three days from 2013-01-01 on (UTC's fourth has some too) to a platform, once, and waits
    until they have landed; the number of their records. Who sends more calls this first."""
    sent: dict[Path, int] = {}

    def send(settings: Settings) -> int:
        if settings.home not in sent:
            faults = Faults(days_late=0.01, duplicates=0.01)
            told = produce_flights(settings, date(2013, 1, 1), 3, Pace(), faults, 7, quiet=True)
            sent[settings.home] = sum(count for (topic, _, _), count in told.records.items() if topic == "flights")
            eventually(lambda: landed(settings) == sent[settings.home], 500)
        return sent[settings.home]

    return send
