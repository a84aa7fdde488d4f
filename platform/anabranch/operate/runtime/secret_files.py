"""Creates secrets and passwords once and keeps them under home, readable by their owner only."""

from __future__ import annotations

import base64
import json
import os
import secrets
import threading
from pathlib import Path

from anabranch.core.airflow_settings import passwords_file
from anabranch.core.settings import Settings


def _once(path: Path, make: str) -> str:
    """Returns the content of ``path``. Writes ``make`` first if the file is missing or empty (a kill while writing)."""
    if path.exists() and (text := path.read_text().strip()):
        return text
    _write(path, make)
    return make


def exact_file(settings: Settings, name: str) -> Path:
    """The file of a secret in a program's own form, for a program that takes it from the output of ``cat``."""
    return settings.home / "secrets" / name.lower()


def write_exact(path: Path, text: str) -> None:
    """Writes exactly ``text``, without a line break, unless that is there."""
    if not path.exists() or path.read_text() != text:
        _write(path, text, end="")


def _write(path: Path, text: str, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Parts are prepared in threads. The process comes last: ``atomic_files.abandoned_drafts`` looks for it there.
    new = path.with_name(f".{path.name}.{threading.get_ident()}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + end)
    new.rename(path)


def secret(settings: Settings, name: str) -> str:
    """A random secret of 43 characters (letters, digits, ``-`` and ``_``), the same in every call."""
    return _once(settings.home / "secrets" / name, secrets.token_urlsafe(32))


def fernet_key(settings: Settings) -> str:
    """The key that Airflow encrypts connections with: 32 random bytes in URL-safe base64."""
    return _once(settings.home / "secrets" / "fernet", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())


def airflow_login(settings: Settings) -> tuple[str, str]:
    """User and password of the login that always exists, and that our own processes use."""
    return "admin", airflow_passwords(settings)["admin"]


def airflow_passwords(settings: Settings) -> dict[str, str]:
    """The passwords of ``admin`` and of the logins in the settings, by user. Makes those that are missing:
    Airflow would make them, too, and print them in its log."""
    path = passwords_file(settings)
    known: dict[str, str] = json.loads(_once(path, json.dumps({"admin": secrets.token_urlsafe(12)})))
    missing = [user for user in settings.airflow_logins if user not in known]
    if missing:
        known |= {user: secrets.token_urlsafe(12) for user in missing}
        _write(path, json.dumps(known))
    return known
