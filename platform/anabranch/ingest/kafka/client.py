"""How this platform talks to Kafka: the client's settings, its silence on stderr, and its errors as ours."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.auth import client_login
from confluent_kafka import KafkaError, KafkaException

REACH_SECONDS = (0.5, 4.5)
"""How long a call waits for the first answer of a broker: a while, and, if nothing was refused by then, on."""

_AWAY = {
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE,
    KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE,
}  # fmt: skip

LOGGER = logging.getLogger("anabranch.kafka")
# librdkafka reports every refused connection; the caller gets one error with a next step instead
LOGGER.addHandler(logging.NullHandler())
LOGGER.propagate = False


@dataclass
class Heard:
    """What a client says of its connections, beside its answers: a call that needed one only times out."""

    refused: KafkaError | None = None
    """The newest refusal of a login or of a certificate."""

    def __call__(self, error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.refused = error


def client_config(
    settings: Settings, defaults: dict[str, Any], fixed: dict[str, Any], heard: Heard | None = None
) -> dict[str, Any]:
    """Settings of a client: ``defaults``, the login, the user's ``kafka_options``, then what the platform relies on.

    They hold the password: not to be shown.
    """
    return {
        **defaults,
        **client_login(settings),
        **settings.kafka_options,
        **fixed,
        "bootstrap.servers": settings.brokers,
        "logger": LOGGER,
        "error_cb": heard or Heard(),
    }


def translated(settings: Settings, error: KafkaError | KafkaException, doing: str) -> AnabranchError:
    """Kafka's error as one of ours; ``doing`` says what was tried, like "listing topics"."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    code = cause.code() if isinstance(cause, KafkaError) else None
    if code in _AWAY:
        return unreachable(settings, doing, str(cause))
    if code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        return kept_out(settings, doing, str(cause), login=code == KafkaError._AUTHENTICATION)
    return TryAgain(
        "BROKER_REFUSED",
        f"{settings.brokers} refused while {doing}: {cause}",
        next_step="read the broker's log; check the rights of this client",
        brokers=settings.brokers,
        reason=str(cause),
    )


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


def kept_out(settings: Settings, doing: str, reason: str, *, login: bool) -> BadInput:
    """The broker refuses our login, or we don't trust its certificate (then it was never told the password)."""
    if login:
        code, what = "BROKER_LOGIN_REFUSED", f"refuses the login of {settings.kafka_user!r}"
        next_step = "check ANABRANCH_KAFKA_USER, ANABRANCH_KAFKA_PASSWORD (or ..._FILE) and ANABRANCH_KAFKA_MECHANISM"
    else:
        code, what = "BROKER_UNTRUSTED", "can't prove who it is"
        next_step = "check ANABRANCH_KAFKA_CA, and that the broker's certificate is of the name that it is called by"
    return BadInput(
        code,
        f"{settings.brokers} {what}, while {doing}: {reason}",
        state="nothing was changed by this call",
        next_step=next_step,
        brokers=settings.brokers,
        reason=reason,
    )


def bad_options(settings: Settings, error: Exception) -> BadInput:
    """A setting that librdkafka doesn't know or can't use; it says so when a client is made."""
    return BadInput(
        "KAFKA_OPTIONS",
        f"the Kafka client refuses its settings: {error}",
        next_step="mend ANABRANCH_KAFKA_OPTIONS (names of librdkafka, as a JSON object)",
        options=sorted(settings.kafka_options),
    )
