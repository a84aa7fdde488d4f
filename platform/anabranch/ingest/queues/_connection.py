"""How RabbitMQ is reached: by the address in the settings, with a password that is read for each connection."""

from __future__ import annotations

import ssl
import struct
from typing import Any
from urllib.parse import unquote, urlsplit

import pika
import pika.data
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPConnectionError

from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings

CONNECT_SECONDS = 10.0
_PORTS = {"amqp": 5672, "amqps": 5671}
_FRACTIONS = {b"f": struct.Struct(">f"), b"d": struct.Struct(">d")}
_decode = pika.data.decode_value


def connect(settings: Settings, name: str) -> pika.BlockingConnection:
    """Open a connection; RabbitMQ shows ``name``. Raises pika's AMQPError or OSError, and as ``port``, ``password``."""
    pika.data.decode_value = decode_value
    try:
        return _connect(settings, name)
    except AMQPConnectorException as error:  # no AMQPError: a server that answers nothing
        raise AMQPConnectionError(f"no answer within {CONNECT_SECONDS:.0f} s ({type(error).__name__})") from error


def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
    """pika's own, which makes integers of numbers with a fraction: two ids that differ became one."""
    kind = _FRACTIONS.get(encoded[offset : offset + 1])
    if kind is None:
        found: tuple[Any, int] = _decode(encoded, offset)
        return found
    return kind.unpack_from(encoded, offset + 1)[0], offset + 1 + kind.size


def port(settings: Settings) -> int:
    """The port of RabbitMQ. Raises BadInput SETTINGS_REFUSED if there is none of that number."""
    url = urlsplit(settings.amqp_url)
    try:
        return url.port or _PORTS[url.scheme]
    except ValueError as error:
        raise BadInput(
            "SETTINGS_REFUSED",
            f"amqp_url: {error}",
            state="nothing was taken from RabbitMQ",
            next_step="correct ANABRANCH_AMQP_URL",
            setting="amqp_url",
        ) from None


def _connect(settings: Settings, name: str) -> pika.BlockingConnection:
    url = urlsplit(settings.amqp_url)
    host, context = url.hostname or "", None
    if url.scheme == "amqps":
        context = ssl.create_default_context(cafile=str(settings.amqp_ca) if settings.amqp_ca else None)
    login = {"credentials": pika.PlainCredentials(unquote(url.username), password(settings))} if url.username else {}
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host=host,
            port=port(settings),
            virtual_host=unquote(url.path[1:]) or "/",
            ssl_options=pika.SSLOptions(context, host) if context else None,
            client_properties={"connection_name": name},
            socket_timeout=CONNECT_SECONDS,
            stack_timeout=CONNECT_SECONDS,
            blocked_connection_timeout=CONNECT_SECONDS,
            **login,
        )
    )


def password(settings: Settings) -> str:
    """The password, read from its file each time. Raises BadInput AMQP_PASSWORD if the file can't be read."""
    file = settings.amqp_password_file
    if file is None:
        return settings.amqp_password.get_secret_value()
    try:
        found = file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        found, why = "", f"can't be read ({type(error).__name__})"
    else:
        why = "is empty"
    if not found:
        raise BadInput(
            "AMQP_PASSWORD",
            f"{file} {why}",
            state="nothing was taken from RabbitMQ",
            next_step="write the password into it, or correct ANABRANCH_AMQP_PASSWORD_FILE",
            file=str(file),
        )
    return found
