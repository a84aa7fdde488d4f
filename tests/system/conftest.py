"""What the system tests share: the whole platform, stopped by its records."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
from anabranch.apps.cli.produce_commands import produce_flights
from anabranch.apps.demo.change import own_project
from anabranch.core.settings import Settings, load_settings
from anabranch.operate.runtime import lifecycle
from anabranch.samples.faults import Faults
from anabranch.samples.publishing import Pace
from certificates import Authority, authority
from leaks import Secrets
from processes import eventually
from sending import landed


@pytest.fixture(scope="session")
def planted() -> Secrets:
    """Passwords that nobody would write by chance."""
    return Secrets({name: f"planted-{secrets.token_hex(16)}" for name in ("anna", "reader")})


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
def platform(own_settings: Callable[[str], Settings]) -> Iterator[Settings]:
    """Everything, shared by the session, over a copy of the project, so that a test can deploy into it. In small
    epochs: an event is late only after an epoch that was further. Three days of departures are too many to be
    reprocessed unasked."""
    few = {"max_offsets_per_trigger": 2_000, "approval_events": 2_300}
    with lifecycle.running(own_project(own_settings("platform").model_copy(update=few))) as settings:
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
