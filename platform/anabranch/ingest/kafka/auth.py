"""Login to Kafka over TLS, with a password that only the Kafka clients read.

librdkafka runs in our own process and gets the password itself. Kafka's Java client inside Spark gets a reference to
it, because Spark may show its options in plans, progress and logs.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.core.settings_checks import UNFIT, UNFIT_PASSWORD

PASSWORD = "ANABRANCH_KAFKA_PASSWORD"  # noqa: S105 - the name of a variable
_PROVIDER = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "env,directory",
    "config.providers.env.class": f"{_PROVIDER}.EnvVarConfigProvider",
    "config.providers.env.param.allowlist.pattern": PASSWORD,
    "config.providers.directory.class": f"{_PROVIDER}.DirectoryConfigProvider",
}
"""With these a Java client or broker resolves the references ``${env:NAME}`` and ``${directory:FOLDER:FILE}``."""


def password(settings: Settings) -> str:
    """The password, read from its file each time. Raises BadInput KAFKA_PASSWORD if the file can't be read or holds
    characters that Kafka's Java client can't use."""
    file = settings.kafka_password_file
    if file is None:
        return settings.kafka_password.get_secret_value()
    try:
        found = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _bad_password(
            file, f"can't be read ({type(error).__name__})", "correct ANABRANCH_KAFKA_PASSWORD_FILE"
        ) from None
    if not found or UNFIT.search(found):
        raise (
            _bad_password(file, *UNFIT_PASSWORD)
            if found
            else _bad_password(file, "is empty", "write the password into it")
        )
    return found


def client_login(settings: Settings) -> dict[str, str]:
    """The login settings of librdkafka. They hold the password."""
    known = _public(settings)
    if settings.kafka_user:
        known |= {"sasl.username": settings.kafka_user, "sasl.password": password(settings)}
    return known


def java_client(settings: Settings) -> dict[str, str]:
    """All settings of a Java client, including ``kafka_options``, by their Java names and without a secret."""
    known = {**_public(settings), **settings.kafka_options}
    mechanism, authority = known.pop("sasl.mechanism", ""), known.pop("ssl.ca.location", None)
    certificate, key = known.pop("ssl.certificate.location", None), known.pop("ssl.key.location", None)
    if settings.kafka_user:
        password(settings)  # fails here with a next step, not in Java with a stack trace
        known |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(settings, mechanism)} | PROVIDERS
    if authority is not None:
        known |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    if certificate is not None and key is not None:
        known |= PROVIDERS | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _file_reference(Path(certificate)),
            "ssl.keystore.key": _file_reference(Path(key)),
        }
    return known


def jaas(settings: Settings, mechanism: str, more: str = "") -> str:
    """The JAAS configuration for Java's login; ``more`` options as ``name="value"``."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    given = f'username="{settings.kafka_user}" password="{password_reference(settings)}"{more}'
    return f"org.apache.kafka.common.security.{module} required {given};"


def password_reference(settings: Settings) -> str:
    """The reference by which a Java client finds the password."""
    file = settings.kafka_password_file
    return _file_reference(file) if file else f"${{env:{PASSWORD}}}"


def _file_reference(file: Path) -> str:
    if ":" in str(file) or "}" in str(file):
        raise _bad_password(file, "has a colon or a brace in its name", "put the file somewhere else")
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


def _bad_password(file: Path, what: str, next_step: str) -> BadInput:
    return BadInput("KAFKA_PASSWORD", f"{file}: {what}", state="nothing was sent", next_step=next_step, file=str(file))
