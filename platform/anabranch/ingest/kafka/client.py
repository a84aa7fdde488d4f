"""Shared settings of all Kafka clients; keeps them quiet on stderr and translates their errors."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.auth import client_login

REACH_SECONDS = (0.5, 4.5)
"""Seconds that a call waits for a broker's first answer: a first try, and a longer one unless the broker rejected
us."""

_UNAVAILABLE = {
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE,
    KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE,
}  # fmt: skip

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)

LOGGER = logging.getLogger("anabranch.kafka")
# librdkafka reports every refused connection; the caller gets one error with a next step instead
LOGGER.addHandler(logging.NullHandler())
LOGGER.propagate = False


@dataclass
class ConnectionErrors:
    """Collects the errors of a client's connections: the calls themselves only report a timeout."""

    refused: KafkaError | None = None
    """The last rejected login or certificate."""

    def __call__(self, error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.refused = error


def client_config(
    settings: Settings, defaults: dict[str, Any], fixed: dict[str, Any], heard: ConnectionErrors | None = None
) -> dict[str, Any]:
    """Settings of a client: ``defaults``, the login, the user's ``kafka_options``, then ``fixed``, which the platform
    relies on.

    They hold the password: don't log or print them.
    """
    return {
        **defaults,
        **client_login(settings),
        **settings.kafka_options,
        **fixed,
        "bootstrap.servers": settings.brokers,
        "logger": LOGGER,
        "error_cb": heard or ConnectionErrors(),
    }


def translate_error(settings: Settings, error: KafkaError | KafkaException, doing: str) -> AnabranchError:
    """Translates Kafka's error into one of ours; ``doing`` says what was tried, like "listing topics"."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    code = cause.code() if isinstance(cause, KafkaError) else None
    if code in _UNAVAILABLE:
        return unreachable(settings, doing, str(cause))
    if code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        return rejected_by_broker(settings, doing, str(cause), login=code == KafkaError._AUTHENTICATION)
    return TryAgain(
        "BROKER_REFUSED",
        f"{settings.brokers} answered with an error while {doing}: {cause}",
        next_step="read the broker's log, and check the permissions of this client",
        brokers=settings.brokers,
        reason=str(cause),
    )


def is_fatal(error: KafkaError) -> bool:
    """Whether the client can't go on: an idempotent producer that has lost the order of its records refuses everything
    from then on."""
    return error.fatal() or error.code() == KafkaError._FATAL


def client_failed(settings: Settings, error: KafkaError) -> TryAgain:
    """The error that ends a process whose client ``is_fatal``: the supervisor starts another one."""
    return TryAgain(
        "CLIENT_FAILED",
        f"the client of Kafka at {settings.brokers} can't go on: {error}",
        state="what the broker had confirmed is in the log; of what waited for its answer, each record may be or not",
        next_step="nothing: the process ends, and is started again with a new client",
        brokers=settings.brokers,
        reason=str(error),
    )


def moment_of(milliseconds: int) -> datetime:
    """The time of a record. Kafka checks none that a producer sets itself: one outside of the years 1 to 9999 is the
    nearest that Python has."""
    try:
        return _START + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if milliseconds > 0 else datetime.min.replace(tzinfo=UTC)


def unreachable(settings: Settings, doing: str, reason: str) -> TryAgain:
    if settings.bootstrap_servers:
        next_step = "check ANABRANCH_BOOTSTRAP_SERVERS and ANABRANCH_KAFKA_OPTIONS, and that the cluster is up"
    else:
        next_step = "start the broker: anabranch up --only kafka (or set ANABRANCH_BOOTSTRAP_SERVERS)"
    return TryAgain(
        "BROKER_UNREACHABLE",
        f"no Kafka broker answers at {settings.brokers} while {doing}: {reason}",
        state="nothing was changed by this call",
        next_step=next_step,
        brokers=settings.brokers,
        reason=reason,
    )


def rejected_by_broker(settings: Settings, doing: str, reason: str, *, login: bool) -> BadInput:
    """The broker rejects our login, or we don't trust its certificate (then it never got the password)."""
    if login:
        code, what = "BROKER_LOGIN_REFUSED", f"rejects the login of {settings.kafka_user!r}"
        next_step = "check ANABRANCH_KAFKA_USER, ANABRANCH_KAFKA_PASSWORD (or ..._FILE) and ANABRANCH_KAFKA_MECHANISM"
    else:
        code, what = "BROKER_UNTRUSTED", "has a certificate that this client doesn't trust"
        next_step = "check ANABRANCH_KAFKA_CA, and that the broker's certificate names the host that clients connect to"
    return BadInput(
        code,
        f"{settings.brokers} {what} (while {doing}): {reason}",
        state="nothing was changed by this call",
        next_step=next_step,
        brokers=settings.brokers,
        reason=reason,
    )


def bad_options(settings: Settings, error: Exception) -> BadInput:
    """A setting that librdkafka doesn't know or can't use; it is reported when a client is created."""
    return BadInput(
        "KAFKA_OPTIONS",
        f"the Kafka client rejects its settings: {error}",
        next_step="correct ANABRANCH_KAFKA_OPTIONS (names of librdkafka, as a JSON object)",
        options=sorted(settings.kafka_options),
    )
