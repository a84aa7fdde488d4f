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
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import SUPERVISOR


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
    held: dict[str, set[str]] = field(default_factory=dict)
    """Which were seen in the environment of a part's process, or of one below it, by part. Every part that was looked
    at is in it."""
    looked_at: dict[str, set[str]] = field(default_factory=dict)
    """The names of the programs whose environment was read, by part."""

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

    def look_at_environments(self, settings: Settings) -> dict[str, set[str]]:
        """Look at every process of this platform but its supervisor, which gives each part its own; ``held`` adds up.
        A process that has overwritten its environment with a title says nothing, nor does one that the kernel guards
        (Airflow's own, above a task)."""
        for part, record in process_registry.read(settings).items():
            for process in [] if part == SUPERVISOR else process_registry.family(record):
                try:
                    given, name = Path(f"/proc/{process.pid}/environ").read_bytes(), process.name()
                except (OSError, psutil.Error):
                    continue
                if b"PATH=" in given:
                    self.looked_at.setdefault(part, set()).add(name)
                    self.held.setdefault(part, set()).update(self.within(given))
        return self.held

    def look_at_processes(self) -> set[str]:
        for pid in psutil.pids():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            self.seen |= {f"{name} in {command[:80]!r}" for name in self.within(command)}
        return self.seen
