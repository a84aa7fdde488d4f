"""Events over HTTP: single posts and batches, each acknowledged after the broker has it, with the client beside."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from dataclasses import dataclass
from itertools import count
from statistics import median

from anabranch.core.settings import Settings
from anabranch.ingest.http import access
from anabranch.ingest.kafka.admin import ensure_topics
from anabranch.operate.runtime import lifecycle

from benchmarks.figures import Figure, Report, Table, percentile
from benchmarks.world import World

CONNECTIONS = 32
BATCH = 100
_HEADERS = (
    "POST /topics/{topic} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    "Content-Type: {media}\r\nContent-Length: {length}\r\n\r\n"
)
_DATA = {"flight_date": "2013-01-01", "carrier": "AA", "flight": 1, "origin": "JFK", "dest": "ATL", "dep_delay": 3}


@dataclass(frozen=True, slots=True)
class Load:
    """What one client process did: events and requests a second, and the seconds that each request took."""

    events: float
    requests: float
    p50: float
    p99: float


def run(world: World) -> Report:
    settings, topic = world.fresh("http"), world.topic.name
    token = access.allow(settings, "benchmark", [topic])
    seconds = world.pick(0.3, 5.0, 15.0)
    singles, batches = list[Load](), list[Load]()
    with lifecycle.running(settings, ["kafka", "http"]):
        ensure_topics(settings, world.declared, [topic])
        if world.size != "tiny":
            _load(settings, topic, token, 1, seconds)  # the first connections are cold
        for _ in range(world.runs):
            singles.append(_load(settings, topic, token, 1, seconds))
            batches.append(_load(settings, topic, token, BATCH, seconds))
    rows = [
        (name, f"{median(each.requests for each in found):,.0f}", f"{median(each.events for each in found):,.0f}",
         f"{1000 * median(each.p50 for each in found):.1f} ms", f"{1000 * median(each.p99 for each in found):.1f} ms")
        for name, found in (("one event", singles), (f"{BATCH} events", batches))
    ]  # fmt: skip
    requests = tuple(each.requests for each in singles)
    slow = tuple(1000 * each.p99 for each in singles)
    slow_batches = tuple(1000 * each.p99 for each in batches)
    events = tuple(each.events for each in batches)
    return Report(
        "http",
        "Events over HTTP",
        f"{CONNECTIONS} connections of one client process, each with one request at a time, beside the server and the "
        f"broker on the same cores, for {seconds:.0f} s each; every answer says where the records are in the log "
        "(acks=all).",
        (Table("", ("a request has", "requests/s", "events/s", "p50", "p99"), tuple(rows)),),
        (
            Figure("http.singles", "single posts a second", requests, "/s", 0, 3_000),
            Figure("http.p99", "p99 of a single post", slow, " ms", 0, 100, at_least=False),
            Figure("http.batches", f"events a second in batches of {BATCH}", events, "/s", 0, 20_000),
            Figure("http.p99_batches", f"p99 of a batch of {BATCH}", slow_batches, " ms", 0, 100, at_least=False),
        ),
        samples={
            "single posts/s": [*requests],
            "p99 of these, ms": [*slow],
            "events/s in batches": [*events],
            "p99 of a batch, ms": [*slow_batches],
        },
    )


def _load(settings: Settings, topic: str, token: str, size: int, seconds: float) -> Load:
    """Run a client in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        taken, elapsed = pool.apply(_client, (settings.http_port, topic, token, size, seconds))
    taken.sort()
    requests = len(taken) / elapsed
    return Load(requests * size, requests, percentile(taken, 0.5), percentile(taken, 0.99))


def _client(port: int, topic: str, token: str, size: int, seconds: float) -> tuple[list[float], float]:
    import uvloop

    return uvloop.run(_requests(port, topic, token, size, seconds))


async def _requests(port: int, topic: str, token: str, size: int, seconds: float) -> tuple[list[float], float]:
    media = "application/cloudevents+json" if size == 1 else "application/cloudevents-batch+json"
    numbers, taken, begun = count(), list[float](), time.monotonic()
    run = f"{time.time_ns():x}"

    def body() -> bytes:
        events = [_event(run, next(numbers)) for _ in range(size)]
        return events[0].encode() if size == 1 else f"[{','.join(events)}]".encode()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (at := time.monotonic()) - begun < seconds:
            content = body()
            head = _HEADERS.format(topic=topic, token=token, media=media, length=len(content))
            writer.write(head.encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.lower().split(b"\r\n")
            length = int(next(line for line in lines if line.startswith(b"content-length:")).split(b":")[1])
            said = await reader.readexactly(length)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise AssertionError(f"{answer!r} {said!r}")
            taken.append(time.monotonic() - at)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return taken, time.monotonic() - begun


def _event(run: str, number: int) -> str:
    return json.dumps(
        {
            "specversion": "1.0", "id": f"{run}-{number}", "source": "/benchmark", "type": "flight.departed",
            "subject": "AA", "time": "2013-01-01T10:00:00Z", "data": {**_DATA, "flight": number % 9_000},
        }
    )  # fmt: skip
