"""One connection of the HTTP server, as uvicorn has it, with bounds for what comes before a request's body.

uvicorn collects headers without a limit, and waits for ever for a first request: a client that needs no token could
take all memory, or all connections. Bodies are bounded by ``_app``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
"""From the connection, or the first byte of a later request, to the end of the headers."""
MOST_HEAD_BYTES: Final = 64 * 1024
"""Of one request; the piece in which they end isn't counted."""


class BoundedConnection(HttpToolsProtocol):
    """Given to uvicorn as its HTTP protocol."""

    _head_bytes = 0
    _in_head = True
    _head_ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response(f"The headers are larger than {MOST_HEAD_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_is_there()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        if self._head_ends is None:
            self._head_ends = self.loop.call_later(HEAD_SECONDS, self._end)

    def _head_is_there(self) -> None:
        self._in_head = False
        if self._head_ends is not None:
            self._head_ends.cancel()
            self._head_ends = None

    def _end(self) -> None:
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()
