"""Asks a schema registry, through Confluent's client."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

T = TypeVar("T")
_TIMEOUT: Final = 5.0
_ASK_AGAIN_SECONDS: Final = 30.0
"""For how long an id that the registry doesn't know is not asked for again."""
_MOST_UNKNOWN: Final = 50
"""How many such ids there may be before no other is asked for."""
_UNKNOWN: Final = (404,)
_MINE: Final = (401, 403)
_FORMATS: Final[Mapping[str, Literal["avro", "protobuf"]]] = {"AVRO": "avro", "PROTOBUF": "protobuf"}


class Registry:
    """One schema registry. What it has answered that it doesn't know is not asked for again for a while, and if
    that is much, nothing is: bytes that only look like the wire format name any number of ids. Raises TryAgain
    REGISTRY_UNREACHABLE if it doesn't answer, BadInput REGISTRY_NOT_SET or REGISTRY_REFUSES if a setting is missing
    or wrong."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._unknown: dict[int, float] = {}

    def schema(self, schema_id: int, *, protobuf: bool) -> RegisteredSchema | None:
        """The schema of an id; None if the registry has none, or one in a format that isn't read here. ``protobuf``: it
        is expected to be one of Protobuf."""
        now = self._clock()
        self._unknown = {number: at for number, at in self._unknown.items() if now - at < _ASK_AGAIN_SECONDS}
        if schema_id in self._unknown or len(self._unknown) >= _MOST_UNKNOWN:
            return None
        found = self._asked(lambda client: _schema(client, client.get_schema(schema_id, fmt=_form(protobuf)), protobuf))
        if found is None:
            self._unknown[schema_id] = now
        return found

    def newest(self, subject: str, *, protobuf: bool) -> tuple[int, RegisteredSchema] | None:
        """Id and schema of a subject's newest version; None as for ``schema``."""

        def ask(client: SchemaRegistryClient) -> tuple[int, RegisteredSchema] | None:
            found = client.get_latest_version(subject, fmt=_form(protobuf))
            schema = _schema(client, found.schema, protobuf)
            return None if schema is None or found.schema_id is None else (found.schema_id, schema)

        return self._asked(ask)

    def _asked(self, ask: Callable[[SchemaRegistryClient], T | None]) -> T | None:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            with self._client() as client:
                return ask(client)
        except SchemaRegistryError as error:
            if error.http_status_code in _UNKNOWN:
                return None
            raise self._refused(f"{error.http_status_code}: {error.error_message}", error.http_status_code) from error
        except AnabranchError:
            raise
        except Exception as error:  # of the client, its HTTP library, or sockets
            raise self._refused(f"{type(error).__name__}: {error}", None) from error

    def _client(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        settings = self._settings
        if not settings.schema_registry_url:
            raise BadInput(
                "REGISTRY_NOT_SET",
                "records name a schema by its id in a registry, and no registry is set",
                state="nothing of this was landed",
                next_step="set ANABRANCH_SCHEMA_REGISTRY_URL, or give the topic its schema: Avro(schema=...)",
            )
        conf: dict[str, Any] = {"url": settings.schema_registry_url, "timeout": _TIMEOUT, "max.retries": 1}
        if settings.schema_registry_user:
            conf["basic.auth.user.info"] = f"{settings.schema_registry_user}:{_password(settings)}"
        if settings.schema_registry_ca is not None:
            conf["ssl.ca.location"] = str(settings.schema_registry_ca)
        return SchemaRegistryClient(conf)

    def _refused(self, why: str, status: int | None) -> AnabranchError:
        url = self._settings.schema_registry_url
        if status in _MINE:
            return BadInput(
                "REGISTRY_REFUSES",
                f"the schema registry {url} refuses the login: {why}",
                state="nothing of this was landed; schemas that are known are still read",
                next_step="correct ANABRANCH_SCHEMA_REGISTRY_USER and ..._PASSWORD_FILE",
            )
        return TryAgain(
            "REGISTRY_UNREACHABLE",
            f"the schema registry {url} doesn't answer: {why}",
            state="nothing of this was landed; schemas that are known are still read",
            next_step="nothing: landing asks again by itself; start the registry, or correct "
            "ANABRANCH_SCHEMA_REGISTRY_URL",
        )


def newest_schema(settings: Settings, subject: str) -> RegisteredSchema:
    """The newest schema of a subject, in Avro or Protobuf. Raises BadInput SUBJECT_UNKNOWN, and as ``Registry``."""
    registry = Registry(settings)
    found = registry.newest(subject, protobuf=False)
    if found is not None and found[1].format == "protobuf":
        found = registry.newest(subject, protobuf=True)
    if found is None:
        raise BadInput(
            "SUBJECT_UNKNOWN",
            f"the schema registry {settings.schema_registry_url} has no subject {subject!r} in Avro or Protobuf",
            next_step="name one that it has; usually it is the topic's name and -value",
            subject=subject,
        )
    return found[1]


def _password(settings: Settings) -> str:
    if settings.schema_registry_password_file is None:
        return settings.schema_registry_password.get_secret_value()
    try:
        return settings.schema_registry_password_file.read_text().rstrip("\n")
    except OSError as error:
        raise BadInput(
            "REGISTRY_REFUSES",
            f"the registry's password can't be read: {settings.schema_registry_password_file}: {error.strerror}",
            next_step="correct ANABRANCH_SCHEMA_REGISTRY_PASSWORD_FILE",
        ) from None


def _form(protobuf: bool) -> str | None:
    """Protobuf is asked for as a compiled description instead of its source text."""
    return "serialized" if protobuf else None


def _schema(client: SchemaRegistryClient, found: Schema, protobuf: bool) -> RegisteredSchema | None:
    form = _FORMATS.get(found.schema_type or "AVRO")
    if form is None or found.schema_str is None:
        return None
    return RegisteredSchema(form, found.schema_str, _references(client, found, protobuf))


def _references(client: SchemaRegistryClient, schema: Schema, protobuf: bool) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for each in schema.references or ():
        used = client.get_version(str(each.subject), each.version or "latest", fmt=_form(protobuf)).schema
        found |= dict(_references(client, used, protobuf))
        found[str(each.name)] = str(used.schema_str)
    return tuple(found.items())
