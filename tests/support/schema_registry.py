"""A stand-in for a schema registry: the documented HTTP API as far as clients use it, in memory.

No registry server is in the package registries that this project can use. It keeps the text that it is given: a real
one also checks compatibility, and compiles the source text of Protobuf.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class RegistryState:
    """What the registry holds. ``asked``: the paths of all requests. ``login``: user:password, if it wants one."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    login: str = ""
    first_id: int = 1
    url: str = ""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        known = next((n for n, each in self.schemas.items() if each == schema), None)
        number = known or max(self.schemas, default=self.first_id - 1) + 1
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: str) -> tuple[int, Any]:
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                versions = self.subjects[subject]
                place = len(versions) if version == "latest" else int(version)
                if not 0 < place <= len(versions):
                    return 404, {"error_code": 40402, "message": "Version not found"}
                content = self.schemas[versions[place - 1]]
                return 200, {"subject": subject, "id": versions[place - 1], "version": place, **content}
            case _:
                return 404, {"error_code": 40401, "message": "Subject not found"}


@contextmanager
def schema_registry(state: RegistryState, port: int = 0) -> Iterator[str]:
    """The address of a registry that runs in this process."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(lambda: state.answer(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            kept = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
            subject = self.path.partition("?")[0].strip("/").split("/")[1]
            self._answer(lambda: (200, {"id": state.register(subject, kept)}))

        def _answer(self, found: Any) -> None:
            state.asked.append(self.path)
            wanted = f"Basic {base64.b64encode(state.login.encode()).decode()}"
            status, content = 401, {"error_code": 401, "message": "Unauthorized"}
            if not state.login or self.headers.get("Authorization") == wanted:
                status, content = found()
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """No log."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield state.url
        finally:
            server.shutdown()
