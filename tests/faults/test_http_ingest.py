"""Events over HTTP with a real broker: what was acknowledged is in the log, through kills of the server, through a
broker that is away, and over TLS."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pyarrow.compute as pc
import pytest
from anabranch.contracts import load_declarations
from anabranch.core.settings import Settings
from anabranch.ingest.http import access
from anabranch.ingest.http._sender import SLOW_SECONDS
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.stream import start
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime._http_server import answers
from confluent_kafka.admin import AdminClient, NewTopic
from support.processes import eventually, started_part
from support.tls_authority import authority

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
KILLS, THREADS = 10, 4
DECLARED = """
from anabranch.contracts import Contract, PlainJson, Record, Topic

SALE = Contract("sale.made", 1, {{"type": "object", "properties": {{"cents": {{"type": "integer"}}}}}})
BILL = Contract("bill.paid", 1, {{"type": "object", "required": ["bill"], "properties": {{
    "bill": {{"type": "string"}}, "at": {{"type": "string", "format": "date-time"}}}}}})
SALES = Topic("sales_{name}", (SALE,))
BILLS = Topic("bills_{name}", (BILL,), records=PlainJson(id="bill", time="at"))
PRICE = Contract("price.set", 1, SALE.schema)
PRICES = Topic("prices_{name}", (PRICE,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME), owned=False)
"""


@pytest.fixture(scope="module")
def settings(broker: Settings, tmp_path_factory: pytest.TempPathFactory, free_port: Any) -> Settings:
    project, name = Path(tmp_path_factory.mktemp("shop")), secrets.token_hex(4)
    folder = project / "spark_jobs" / "contracts"
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(DECLARED.format(name=name))
    more = {"project": project, "home": project / "home", "http_port": free_port(), "shuffle_partitions": 2}
    settings = broker.model_copy(update=more)
    create_missing(settings, list(load_declarations(folder).topics.values()))
    return settings


@pytest.fixture(scope="module")
def sales(settings: Settings) -> str:
    return next(name for name in load_declarations(settings.contracts_folder).topics if name.startswith("sales"))


@pytest.fixture(scope="module")
def bills(settings: Settings) -> str:
    return next(name for name in load_declarations(settings.contracts_folder).topics if name.startswith("bills"))


def serve(settings: Settings) -> subprocess.Popen[bytes]:
    return started_part(settings, "anabranch.ingest.http", "http.log")


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    process = serve(settings)
    try:
        eventually(lambda: answers(settings), 30)
        yield f"http://127.0.0.1:{settings.http_port}"
    finally:
        process.terminate()
        assert process.wait(60) == -SIGTERM, "uvicorn ends by the signal, once every request is answered"


def event(number: int) -> bytes:
    envelope = {"specversion": "1.0", "id": f"e-{number}", "source": "/till", "type": "sale.made"}
    return json.dumps({**envelope, "time": "2026-11-01T10:00:00Z", "data": {"cents": number}}).encode()


def test_nothing_acknowledged_is_lost_and_nothing_is_doubled_through_kills(
    spark: SparkSession, settings: Settings, sales: str
) -> None:
    headers = {"authorization": f"Bearer {access.allow(settings, 'till', [sales])}"}
    headers["content-type"] = "application/cloudevents+json"
    address = f"http://127.0.0.1:{settings.http_port}/topics/{sales}"
    acknowledged: dict[str, tuple[int, int]] = {}
    done, failures = threading.Event(), list[str]()

    def send(first: int) -> None:
        number = first
        with httpx.Client(timeout=10) as client:
            while not done.is_set():
                while not done.is_set():  # the same event again, until it is acknowledged
                    try:
                        answer = client.post(address, content=event(number), headers=headers)
                    except httpx.TransportError:
                        time.sleep(0.05)
                        continue
                    if answer.status_code == 200:
                        (place,) = answer.json()["records"]
                        acknowledged[f"e-{number}"] = place["partition"], place["offset"]
                        break
                    if answer.status_code not in (429, 503):
                        failures.append(answer.text)
                    time.sleep(0.05)
                number += THREADS

    def more_than(count: int) -> None:
        eventually(lambda: len(acknowledged) > count, 30)

    threads = [threading.Thread(target=send, args=(first,)) for first in range(THREADS)]
    process = serve(settings)
    try:
        eventually(lambda: answers(settings), 30)
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            more_than(len(acknowledged) + 50)
            process.kill()
            process.wait(10)
            process = serve(settings)
        more_than(len(acknowledged) + 50)
    finally:
        done.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        process.terminate()
        process.wait(60)
    assert not failures

    topic = load_declarations(settings.contracts_folder).topic(sales)
    assert start(spark, settings, topic, once=True).awaitTermination(240)
    assert verify(settings, topic).sound
    table = open_table(landing_table(settings, sales))
    assert table is not None
    rows = table.to_pyarrow_table(columns=["partition", "offset", "decision", "event_id", "value"])
    at = {(row["partition"], row["offset"]): json.loads(row["value"])["id"] for row in rows.to_pylist()}
    assert {name: at.get(place) for name, place in acknowledged.items()} == {name: name for name in acknowledged}
    valid = rows.filter(pc.equal(rows["decision"], "valid"))["event_id"].to_pylist()
    assert len(valid) == len(set(valid)), "landing keeps one of each"
    assert set(valid) >= set(acknowledged)
    assert set(pc.unique(rows["decision"]).to_pylist()) <= {"valid", "duplicate"}


def test_a_webhook_and_plain_json_of_a_mapped_topic(settings: Settings, sales: str, bills: str) -> None:
    secret = access.allow(settings, "github", [bills], webhook=True)
    body = b'{"bill": "b-1", "at": "2026-11-01T10:00:00Z"}'
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    with serving(settings) as address, httpx.Client(base_url=address, timeout=20) as client:
        right = {"content-type": "application/json", "x-hub-signature-256": signature}
        answer = client.post("/webhooks/github", content=body, headers=right)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["records"]) == 1
        token = {"authorization": f"Bearer {access.allow(settings, 'shop', [bills])}"}
        time.sleep(1.1)  # clients are looked up once a second
        many = b"[" + b",".join([body] * 500) + b"]"
        answer = client.post(f"/topics/{bills}", content=many, headers=token | {"content-type": "application/json"})
        places = {(each["partition"], each["offset"]) for each in answer.json()["records"]}
        assert len(places) == 500
        assert client.post(f"/topics/{sales}", content=event(1), headers=token).status_code == 403


def test_a_compacted_topic_refuses_a_record_without_a_key_for_good(
    settings: Settings, broker: Settings, sales: str
) -> None:
    prices = sales.replace("sales", "prices")
    made = NewTopic(prices, num_partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": broker.brokers})  # its calls end with it
    admin.create_topics([made])[prices].result(20)
    headers = {"authorization": f"Bearer {access.allow(settings, 'board', [prices, sales])}"}
    headers["content-type"] = "application/json"
    with serving(settings) as address, httpx.Client(timeout=30, headers=headers) as client:
        keyed = client.post(f"{address}/topics/{prices}", content=b'{"cents":1}', headers={"record-key": "a"})
        refused = client.post(f"{address}/topics/{prices}", content=b'{"cents":2}')
        many = client.post(f"{address}/topics/{prices}", content=b'[{"cents":3},{"cents":4}]')
        other = client.post(
            f"{address}/topics/{sales}", content=event(1), headers={"content-type": "application/cloudevents+json"}
        )
    assert (keyed.status_code, refused.status_code, many.status_code, other.status_code) == (200, 422, 422, 200)
    assert refused.json()["code"] == "EVENT_REFUSED"
    assert "retry-after" not in refused.headers


def test_a_broker_that_does_not_answer_is_said_and_waited_for(settings: Settings, broker: Settings, sales: str) -> None:
    """What it was given before is acknowledged once it answers; meanwhile nothing more is taken."""
    headers = {"authorization": f"Bearer {access.allow(settings, 'till', [sales])}"}
    headers["content-type"] = "application/cloudevents+json"
    waited: list[httpx.Response] = []
    with serving(settings) as address, httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        assert client.post(f"/topics/{sales}", content=event(10_000)).status_code == 200
        kafka = psutil.Process(process_registry.read(broker)["kafka"].pid)

        def wait() -> None:
            where = f"{address}/topics/{sales}"
            waited.append(httpx.post(where, content=event(10_001), headers=headers, timeout=60))

        sender = threading.Thread(target=wait)
        kafka.suspend()
        try:
            sender.start()
            time.sleep(SLOW_SECONDS + 0.5)
            answer = client.post(f"/topics/{sales}", content=event(10_002))
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            assert client.get("/health").status_code == 503
            assert not waited
        finally:
            kafka.resume()
        sender.join()
        assert waited[0].status_code == 200, waited[0].text
        assert client.post(f"/topics/{sales}", content=event(10_002)).status_code == 200


def test_tls_only(settings: Settings, sales: str, tmp_path: Path, free_port: Any) -> None:
    trusted = authority(tmp_path, "trusted")
    certificate = trusted.sign(tmp_path / "server.pem", "127.0.0.1")
    own = settings.model_copy(update={"http_port": free_port(), "http_certificate": certificate})
    headers = {"authorization": f"Bearer {access.allow(own, 'till', [sales])}"}
    headers["content-type"] = "application/cloudevents+json"
    with serving(own), pytest.raises(httpx.TransportError):
        httpx.post(f"http://127.0.0.1:{own.http_port}/topics/{sales}", content=event(1), headers=headers)
    with serving(own):
        context = ssl.create_default_context(cafile=str(trusted.file))
        address = f"https://127.0.0.1:{own.http_port}/topics/{sales}"
        assert httpx.post(address, content=event(1), headers=headers, verify=context).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.post(address, content=event(1), headers=headers)
