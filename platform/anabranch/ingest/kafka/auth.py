"""How we log in to Kafka: over TLS, by a password that only the clients themselves read.

librdkafka, in our own process, is given the password. Kafka's Java client inside Spark is given the place of it: what
Spark knows, it may show in plans, progress and logs.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.core.errors import BadInput
from anabranch.core.settings import UNFIT, UNFIT_PASSWORD, Settings

PASSWORD = "ANABRANCH_KAFKA_PASSWORD"  # noqa: S105 - the name of a variable
_PROVIDER = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "env,directory",
    "config.providers.env.class": f"{_PROVIDER}.EnvVarConfigProvider",
    "config.providers.env.param.allowlist.pattern": PASSWORD,
    "config.providers.directory.class": f"{_PROVIDER}.DirectoryConfigProvider",
}
"""With these a Java client or broker reads what stands in place of ``${env:NAME}`` and ``${directory:FOLDER:FILE}``."""


def password(settings: Settings) -> str:
    """The password, read anew. BadInput KAFKA_PASSWORD when its file can't be read, or by Java's client not used."""
    file = settings.kafka_password_file
    if file is None:
        return settings.kafka_password.get_secret_value()
    try:
        found = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(file, f"can't be read ({type(error).__name__})", "mend ANABRANCH_KAFKA_PASSWORD_FILE") from None
    if not found or UNFIT.search(found):
        raise _bad(file, *UNFIT_PASSWORD) if found else _bad(file, "is empty", "write the password into it")
    return found


def client_login(settings: Settings) -> dict[str, str]:
    """What librdkafka has to be told. It holds the password."""
    known = _public(settings)
    if settings.kafka_user:
        known |= {"sasl.username": settings.kafka_user, "sasl.password": password(settings)}
    return known


def java_client(settings: Settings) -> dict[str, str]:
    """All that a Java client has to be told, ``kafka_options`` included, in its own names and without a secret."""
    known = {**_public(settings), **settings.kafka_options}
    mechanism, authority = known.pop("sasl.mechanism", ""), known.pop("ssl.ca.location", None)
    certificate, key = known.pop("ssl.certificate.location", None), known.pop("ssl.key.location", None)
    if settings.kafka_user:
        password(settings)  # refused here with a next step, not by Java with a stack
        known |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(settings, mechanism)} | PROVIDERS
    if authority is not None:
        known |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    if certificate is not None and key is not None:
        known |= PROVIDERS | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _content_of(Path(certificate)),
            "ssl.keystore.key": _content_of(Path(key)),
        }
    return known


def jaas(settings: Settings, mechanism: str, more: str = "") -> str:
    """Who we are, as Java wants to be told; ``more`` options as ``name="value"``."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    given = f'username="{settings.kafka_user}" password="{password_place(settings)}"{more}'
    return f"org.apache.kafka.common.security.{module} required {given};"


def password_place(settings: Settings) -> str:
    """Where a Java client finds the password."""
    file = settings.kafka_password_file
    return _content_of(file) if file else f"${{env:{PASSWORD}}}"


def _content_of(file: Path) -> str:
    if ":" in str(file) or "}" in str(file):
        raise _bad(file, "has a colon or a brace in its name", "put the file somewhere else")
    return f"${{directory:{file.absolute().parent}:{file.name}}}"


def _public(settings: Settings) -> dict[str, str]:
    known: dict[str, str] = {}
    if settings.kafka_user:
        known |= {"security.protocol": "SASL_SSL", "sasl.mechanism": settings.kafka_mechanism}
    elif settings.kafka_ca:
        known |= {"security.protocol": "SSL"}
    if settings.kafka_ca:
        known["ssl.ca.location"] = str(settings.kafka_ca)
    return known


def _bad(file: Path, what: str, next_step: str) -> BadInput:
    return BadInput("KAFKA_PASSWORD", f"{file}: {what}", state="nothing was sent", next_step=next_step, file=str(file))
