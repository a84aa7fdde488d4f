"""Who may send what: clients with a token or a webhook's secret, each for some topics.

A token is stored as its hash; a webhook's secret must be known to check signatures, so the folder is readable by its
owner only.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import AnabranchError, BadInput
from anabranch.core.settings import Settings

log = logging.getLogger(__name__)
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_SIGNATURE: Final = "sha256="
_LOOK_SECONDS: Final = 1.0
"""How often the clients are looked up again: a revoked one is let in for this long."""


@dataclass(frozen=True, slots=True)
class HttpClient:
    """A client of the HTTP server. Either ``token_hash`` (SHA-256, hex) or ``secret`` is set."""

    name: str
    topics: tuple[str, ...]
    token_hash: str = ""
    secret: str = ""


CLIENT: Final = ControlFile("client of the HTTP server", HttpClient)


def clients_folder(settings: Settings) -> Path:
    return settings.home / "secrets" / "http"


def read_clients(settings: Settings) -> dict[str, HttpClient | None]:
    """Return all clients, by name; None for one whose file can't be read."""
    found: dict[str, HttpClient | None] = {}
    for file in sorted(clients_folder(settings).glob("*.json")):
        try:
            client = CLIENT.read(file)
        except (OSError, ValueError, AnabranchError):
            found[file.stem] = None
        else:
            found |= {} if client is None else {client.name: client}  # it was revoked meanwhile
    return found


def allow(settings: Settings, name: str, topics: Sequence[str], *, webhook: bool = False) -> str:
    """Let a client in, and return its token, or its webhook's secret: it is shown once. A client of this name gets new
    topics and a new token. Raises BadInput CLIENT_NAME."""
    if not NAME.fullmatch(name):
        raise BadInput(
            "CLIENT_NAME",
            f"{name!r} is not a client's name",
            state="nothing was changed",
            next_step="use a-z, 0-9, - and _, beginning with a letter",
            field="name",
        )
    given = secrets.token_urlsafe(32)
    kept = {"secret": given} if webhook else {"token_hash": _hash(given)}
    folder = clients_folder(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    CLIENT.write(folder / f"{name}.json", HttpClient(name, tuple(topics), **kept))
    return given


def revoke(settings: Settings, name: str) -> bool:
    """Let a client in no more; whether there was one."""
    file = clients_folder(settings) / f"{name}.json"
    if not NAME.fullmatch(name) or not file.exists():
        return False
    file.unlink(missing_ok=True)
    return True


class Access:
    """The clients as a running server knows them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._looked = float("-inf")
        self._seen: dict[str, tuple[int, int]] = {}
        self._known: dict[str, HttpClient] = {}
        self._by_token: dict[str, HttpClient] = {}
        self._webhooks: dict[str, HttpClient] = {}

    def by_token(self, authorization: str) -> HttpClient | None:
        """Return the client with this ``Authorization`` header; None if there is none."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        self._look()
        # By its hash: how long the lookup takes says nothing about a token.
        return self._by_token.get(_hash(token.strip()))

    def by_signature(self, name: str, signature: str, body: bytes) -> HttpClient | None:
        """Return the webhook of this name if ``signature`` is GitHub's ``sha256=HEX`` of the body."""
        self._look()
        client = self._webhooks.get(name)
        secret = client.secret if client else "nobody"  # as long for a name that isn't known
        right = _SIGNATURE + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return client if hmac.compare_digest(right.encode(), signature.encode()) and client else None

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            stats = ((file.name, file.stat()) for file in clients_folder(self._settings).glob("*.json"))
            seen = {name: (stat.st_mtime_ns, stat.st_ino) for name, stat in stats}
            if seen == self._seen:
                return
        except OSError as error:  # those that were known are let in on
            log.error("clients of the HTTP server can't be read: %s", error)
            return
        unread: set[str] = set()
        self._known = {name: client for name in seen if (client := self._read(name, unread)) is not None}
        clients = self._known.values()
        self._seen = {name: stat for name, stat in seen.items() if name not in unread}  # those are read again
        self._by_token = {client.token_hash: client for client in clients if client.token_hash}
        self._webhooks = {client.name: client for client in clients if client.secret}

    def _read(self, name: str, unread: set[str]) -> HttpClient | None:
        """The client in a file; as it was before, if the file can't be read now: then it is added to ``unread``."""
        try:
            return CLIENT.read(clients_folder(self._settings) / name)
        except (OSError, ValueError, AnabranchError) as error:
            log.error("%s: the client of the HTTP server can't be read: %s", name, error)
            unread.add(name)
            return self._known.get(name)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
