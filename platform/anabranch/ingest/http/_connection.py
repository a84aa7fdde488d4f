"""One connection of the HTTP server, as uvicorn has it, with bounds for all but the body of a request that waits.

uvicorn collects headers and trailers without a limit, queues requests that are sent ahead, and waits for ever for a
first request, for the rest of one that is answered, and for a client that doesn't read: a client that needs no token
could take all memory, or all connections. Bodies are bounded by ``_app``.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
"""From the connection, or the first byte of a later request, to the end of the headers; and from an answer to the end
of a request that it didn't wait for."""
UNREAD_SECONDS = 30.0
"""How long a client may leave its answers unread."""
MOST_HEAD_BYTES: Final = 64 * 1024
"""Of one request, and as many of its trailers; the piece in which they end isn't counted."""
FIELD_BYTES: Final = 32
"""What a header counts in addition to its own bytes, as in HTTP/2: so many are in memory for each."""
MOST_AHEAD: Final = 16
"""Requests of one connection that may be sent before the one in front of them is answered."""


class BoundedConnection(HttpToolsProtocol):
    """Given to uvicorn as its HTTP protocol."""

    _in_head, _whole = True, True
    _advanced = False  # whether a piece had anything of a body, or the end of a head or of a request
    _bytes = _field_bytes = 0  # since it advanced; of the headers
    _ends: asyncio.TimerHandle | None = None
    _aborts: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_abort()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._advanced = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._bytes = 0 if self._advanced else self._bytes + len(data)
        if self._bytes > MOST_HEAD_BYTES:
            self.send_400_response(f"The headers are larger than {MOST_HEAD_BYTES:,} bytes.")
        elif self.timeout_keep_alive_task is None and self.cycle is not None and self.cycle.response_complete:
            self._start_timer()  # uvicorn waits for ever now: bytes came, and no request has begun, or it was answered

    def send_400_response(self, msg: str) -> None:
        if not self.pipeline and (self.cycle is None or self.cycle.response_complete == self._whole):
            super().send_400_response(msg)
        else:  # it would be taken for the answer to a request that may be in the log already, or that has one
            self._end()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many requests wait")
        super().on_message_begin()
        self._in_head, self._bytes, self._field_bytes = True, 0, 0
        self._start_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: nobody reads it
        self._field_bytes += len(name) + len(value) + FIELD_BYTES
        if self._field_bytes > MOST_HEAD_BYTES:
            raise ValueError("the headers are too large")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._whole, self._advanced = False, False, True
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._whole = self._advanced = True
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_abort()

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def _start_timer(self) -> None:
        if self._ends is None:
            self._ends = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop_timer(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None

    def _end(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._await_reader()

    def _await_reader(self) -> None:
        """Answers that nobody reads keep even a closed connection."""
        if self._aborts is None:
            self._aborts = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def _stop_abort(self) -> None:
        if self._aborts is not None:
            self._aborts.cancel()
            self._aborts = None
