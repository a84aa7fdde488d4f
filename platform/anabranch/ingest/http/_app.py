"""The web application: authorises requests, makes records of them, and answers when the broker has them.

Answers are JSON. 200: every record is in the log, with its partition and offset (null: the broker didn't name it). 401:
an unknown token or a wrong signature, and nothing more. 4xx: nothing was sent. 429 and 503 with ``Retry-After``: send
it again, with the same ids; landing keeps one of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch.contracts import Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.sending import RecordCheck
from anabranch.core.settings import Settings
from anabranch.ingest.http._bodies import MOST_RECORDS, Prepared, Unreadable, prepare
from anabranch.ingest.http._sender import Busy, Refused, Sender, Undelivered
from anabranch.ingest.http.access import Access
from anabranch.ingest.kafka.batches import size_of
from anabranch.ingest.kafka.producer import RECORD_OVERHEAD

MOST_BYTES: Final = 8 * 2**20
"""Of one request."""
READ_SECONDS: Final = 20.0
"""How long a client may take to send its body."""
RETRY_SECONDS: Final = 1
_SIGNATURE: Final = "x-hub-signature-256"
_NOTHING: Final = "nothing was sent"


def application(settings: Settings, declarations: Declarations) -> Starlette:
    """Return the application. Its topics are those of ``declarations``, until it is started again."""
    server = _Server(settings, declarations)
    routes = [
        Route("/topics/{topic}", server.events, methods=["POST"]),
        Route("/webhooks/{name}", server.webhook, methods=["POST"]),
        Route("/health", server.health),
    ]
    return Starlette(routes=routes, lifespan=server.lifespan)


class _Server:
    def __init__(self, settings: Settings, declarations: Declarations) -> None:
        self._declarations = declarations
        self._access = Access(settings)
        self._sender = Sender(settings, declarations)
        checked = (declarations.topic(name) for name in settings.http_checked_topics)
        self._checks = {topic.name: RecordCheck(topic) for topic in checked}

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._sender.start()
        try:
            yield
        finally:
            await self._sender.stop()

    async def events(self, request: Request) -> Response:
        client = self._access.by_token(request.headers.get("authorization", ""))
        if client is None:
            return Response(status_code=401, headers={"www-authenticate": "Bearer"})
        name = request.path_params["topic"]
        if name not in client.topics:
            return _problem(403, "NOT_ALLOWED", f"{client.name} may not send to {name!r}", "use a token for this topic")
        return await self._take(name, request, await _body(request))

    async def webhook(self, request: Request) -> Response:
        body = await _body(request)
        if isinstance(body, Response):  # not the whole body: nobody knows whose it is
            return body if body.status_code == 503 else Response(status_code=401)
        signature = request.headers.get(_SIGNATURE, "")
        client = self._access.by_signature(request.path_params["name"], signature, body)
        if client is None:
            return Response(status_code=401)
        return await self._take(client.topics[0], request, body)

    async def health(self, _: Request) -> Response:
        return JSONResponse({"behind": self._sender.behind}, 503 if self._sender.behind else 200)

    async def _take(self, name: str, request: Request, body: bytes | Response) -> Response:
        if isinstance(body, Response):
            return body
        topic = self._declarations.topics.get(name)
        if topic is None:
            return _problem(404, "TOPIC_MISSING", f"topic {name!r} isn't declared", "declare it, and restart http")
        try:
            records = prepare(topic, request.headers, body, most=MOST_RECORDS)
        except Unreadable as error:
            return _problem(error.status, "EVENT_REFUSED", error.what, error.next_step)
        refused = self._refused(topic, records)
        return refused if refused is not None else await self._sent(topic.in_kafka, records)

    def _refused(self, topic: Topic, records: Sequence[Prepared]) -> Response | None:
        check = self._checks.get(topic.name)
        limit = topic.max_message_bytes - RECORD_OVERHEAD
        for number, record in enumerate(records):
            if (size := size_of(record.key, record.value, record.headers)) > limit:
                what = f"record {number}: {size:,} bytes are more than topic {topic.name} takes"
                return _problem(413, "EVENT_REFUSED", what, "send less in one record", record=number)
            keyed = record.key is not None
            if check is not None and (
                problem := check.problem(record.value, record.content, record.headers, keyed=keyed)
            ):
                field, why = problem
                what = f"record {number}: {field}: {why}"
                return _problem(422, "EVENT_REFUSED", what, f"correct {field}", record=number, field=field)
        return None

    async def _sent(self, topic: str, records: Sequence[Prepared]) -> Response:
        try:
            places = await self._sender.send(topic, records)
        except Busy:
            return _problem(429, "BROKER_BEHIND", "the broker is behind", "send it again later", retry=True)
        except Refused as error:
            return _problem(
                422, "EVENT_REFUSED", f"record {error.number}: the broker refuses it: {error}",
                "correct it (a compacted topic takes no record without a key), and send all again with the same ids",
                state=_NOTHING if len(records) == 1 else "each of the other records may or may not be in the log",
                record=error.number,
            )  # fmt: skip
        except Undelivered as error:
            return _unknown(f"the broker didn't confirm every record: {error}")
        except asyncio.CancelledError:
            return _unknown("the server ends before the broker has confirmed every record")
        return JSONResponse({"records": [{"partition": partition, "offset": offset} for partition, offset in places]})


async def _body(request: Request) -> bytes | Response:
    found = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                found += chunk
                if len(found) > MOST_BYTES:
                    what = f"the body is larger than {MOST_BYTES:,} bytes"
                    return _problem(413, "EVENT_REFUSED", what, "send fewer records in one request")
    except asyncio.CancelledError:
        return _problem(503, "DELIVERY_FAILED", "the server ends", "send it again", retry=True)
    except TimeoutError:
        return _problem(408, "EVENT_REFUSED", f"the body took longer than {READ_SECONDS:.0f} s", "send it faster")
    except ClientDisconnect:
        return Response(status_code=400)
    return bytes(found)


def _unknown(what: str) -> Response:
    next_step = "send all again with the same ids: landing keeps one of each"
    state = "each record may or may not be in the log"
    return _problem(503, "DELIVERY_FAILED", what, next_step, state=state, retry=True)


def _problem(
    status: int, code: str, what: str, next_step: str, *, state: str = _NOTHING, retry: bool = False, **more: object
) -> Response:
    content: Mapping[str, object] = {"code": code, "what": what, "state": state, "next_step": next_step, **more}
    return JSONResponse(content, status, headers={"retry-after": f"{RETRY_SECONDS}"} if retry else None)
