"""Looking for secrets where none belongs: in files, in process lists, in a database."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psutil


def forms(secret: str) -> list[bytes]:
    """As it is, in an address, in hexadecimal, and the middle of it in base64, wherever it starts there."""
    shifted = [base64.b64encode(b"\0" * n + secret.encode())[4:-4] for n in range(3)]
    plain = [secret.encode(), quote(secret, safe="").encode(), secret.encode().hex().encode()]
    return list(dict.fromkeys([*plain, *shifted]))


@dataclass
class Secrets:
    """Secrets by their names."""

    known: Mapping[str, str]
    seen: set[str] = field(default_factory=set)
    """Which were seen in a process's command line, and in whose."""

    def within(self, content: bytes) -> list[str]:
        return [name for name, secret in self.known.items() if any(form in content for form in forms(secret))]

    def in_files(self, folders: Iterable[Path], kept: Iterable[Path] = ()) -> list[str]:
        """Which file holds which secret; ``kept`` are those that may. Files that end meanwhile hold nothing."""
        allowed = {path.resolve() for path in kept}
        found = []
        for file in (file for folder in folders for file in folder.rglob("*")):
            if file.is_file() and not file.is_symlink() and not {file, *file.parents} & allowed:
                try:
                    content = file.read_bytes()
                except FileNotFoundError:
                    continue
                found += [f"{name} in {file}" for name in self.within(content)]
        return found

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at every process of this machine, twenty times a second; ``seen`` says what was seen."""
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.05):
                self.look_at_processes()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def look_at_processes(self) -> set[str]:
        for pid in psutil.pids():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            self.seen |= {f"{name} in {command[:80]!r}" for name in self.within(command)}
        return self.seen
