"""Checks of settings that depend on one another. Each raises BadInput SETTINGS_REFUSED, which names the setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from anabranch.core._setting_types import is_loopback, refused

if TYPE_CHECKING:
    from anabranch.core.settings import Settings

_SECRET = re.compile(r"(?i)secret|password|token|access\.?key|jaas|username|mechanism|\.pem$|oauthbearer\.config")
"""Names of options that hold a secret or a user name. Their values would show up in Spark's plans and in ``ps``."""
_URL_ENCODED = re.compile(r'[^\x21-\x7e]|["#%:<>?`{}|\\^\[\]]')
"""Characters that delta-rs and Hadoop encode differently when they take a path for a URL."""
UNFIT = re.compile(r'["\\\x00-\x1f\x7f]')
"""Characters that a password of Kafka's Java client can't hold."""
UNFIT_PASSWORD = (
    "a password with quotes, backslashes or line breaks can't be given to Kafka's Java client",
    "choose another one; a file is written without a line break by: printf %s 'the password' > FILE",
)


def check_secrets(settings: Settings) -> None:
    """Options must not hold a secret, and a user of the broker needs one password."""
    of_kafka = "use ANABRANCH_KAFKA_USER, _PASSWORD_FILE and _MECHANISM, or an option that names a file"
    given_options: list[tuple[str, Mapping[str, Any], str]]
    given_options = [("kafka_options", settings.kafka_options, of_kafka), ("spark_conf", settings.spark_conf, of_kafka)]
    of_airflow = "store it as a connection in Airflow, and give the notifier the name of the connection"
    given_options += [("notifiers", each.arguments, of_airflow) for each in settings.notifiers]
    for field, options, advice in given_options:
        for name in options:
            if _SECRET.search(name) and not name.endswith((".file", ".location")):
                raise refused(field, f"{name} isn't allowed here: logs, plans and ps show options", advice)
    if settings.kafka_user and "security.protocol" in settings.kafka_options:
        raise refused("kafka_options", "security.protocol: a login always uses TLS (SASL_SSL)", "leave it out")
    given = bool(settings.kafka_password.get_secret_value()) + bool(settings.kafka_password_file)
    if given > 1:
        raise refused("kafka_password_file", "the password is given twice", "unset ANABRANCH_KAFKA_PASSWORD")
    if given != bool(settings.kafka_user):
        advice = "set ANABRANCH_KAFKA_USER and ANABRANCH_KAFKA_PASSWORD_FILE (or ..._PASSWORD), or neither"
        raise refused("kafka_user", "a user needs a password, and a password a user", advice)
    if UNFIT.search(settings.kafka_password.get_secret_value()):
        raise refused("kafka_password", *UNFIT_PASSWORD)


def check_registry_login(settings: Settings) -> None:
    """A user of the registry needs one password, which travels only over TLS."""
    given = bool(settings.schema_registry_password.get_secret_value()) + bool(settings.schema_registry_password_file)
    if given != bool(settings.schema_registry_user):
        advice = "set ANABRANCH_SCHEMA_REGISTRY_USER and ..._PASSWORD_FILE (or ..._PASSWORD), or neither"
        raise refused("schema_registry_user", "a user needs one password, and a password a user", advice)
    host = re.sub(r"^https?://|[:/].*$", "", settings.schema_registry_url.partition("://")[2])
    if given and settings.schema_registry_url.startswith("http://") and not is_loopback(host):
        what = f"anyone on the way to {host} could read the password"
        raise refused("schema_registry_url", what, "use https://")


def check_home_path(settings: Settings) -> None:
    """The home's path must mean the same to every library."""
    if found := _URL_ENCODED.search(str(settings.home)):
        advice = "choose another folder: its path may be ASCII only, without spaces, colons, brackets, %, # and ?"
        raise refused("home", f"{str(settings.home)!r} holds {found[0]!r}", advice)


def check_network_access(settings: Settings) -> None:
    """Nothing listens beyond loopback without TLS and a login."""
    tls = "set ANABRANCH_KAFKA_USER, ..._PASSWORD_FILE, ..._CERTIFICATE (the broker's) and ..._CA (its clients')"
    if not settings.bootstrap_servers:
        if not is_loopback(settings.kafka_host) and not settings.kafka_certificate:
            what = f"{settings.kafka_host} is not loopback: without a login anyone who reaches it can use the log"
            raise refused("kafka_host", what, tls)
        if len({bool(settings.kafka_certificate), bool(settings.kafka_user), bool(settings.kafka_ca)}) > 1:
            raise refused("kafka_certificate", "the embedded broker needs both a login and TLS, or neither", tls)
        if not re.fullmatch(r"[A-Za-z0-9_-]*", settings.kafka_user):
            raise refused("kafka_user", "the embedded broker's user is letters, digits, - and _ only", "rename it")
    conf = {name.lower(): value for name, value in settings.spark_conf.items()}
    for name in ("spark.driver.bindaddress", "spark.driver.host"):
        if not is_loopback(conf.get(name, "127.0.0.1")) and conf.get("spark.authenticate", "").lower() != "true":
            what = f"{name}={conf[name]} lets anyone who reaches it run code in Spark's driver"
            raise refused("spark_conf", what, "set spark.authenticate=true too")


CHECKS: Final = (check_secrets, check_registry_login, check_home_path, check_network_access)
