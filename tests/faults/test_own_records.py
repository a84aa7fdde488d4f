"""``anabranch.send``, ``produce records`` and ``events`` with a real broker: what is sent is there as it was sent."""

from __future__ import annotations

import json
import secrets
import threading
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.apps.cli.main import app
from anabranch.contracts import load_declarations
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.kafka.look import at, follow, newest
from anabranch.operate.runtime.environment import environment
from support.sent_records import raw_producer
from typer.testing import CliRunner

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
DECLARED = """
from anabranch.contracts import Contract, Header, PlainJson, Topic

SALE = Contract("sale.made", 1, {{"type": "object", "properties": {{"cents": {{"type": "integer"}}}}}})
VOID = Contract("sale.void", 1, {{"type": "object", "properties": {{"why": {{"type": "string"}}}}}})
BILL = Contract("bill.paid", 1, {{"type": "object", "required": ["bill"], "properties": {{
    "bill": {{"type": "string"}}, "at": {{"type": "string", "format": "date-time"}}}}}})
PUSH = Contract("bill.pushed", 1, BILL.schema)
SALES = Topic("sales_{name}", (SALE, VOID))
BILLS = Topic("bills_{name}", (BILL,), records=PlainJson(id="bill", time="at"))
PUSHES = Topic("pushes_{name}", (PUSH,), records=PlainJson(id=Header("push"), time="at"))
"""
NAME = secrets.token_hex(4)
SALES, BILLS, PUSHES = f"sales_{NAME}", f"bills_{NAME}", f"pushes_{NAME}"


@pytest.fixture(scope="module")
def settings(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    project = Path(tmp_path_factory.mktemp("own-records"))
    folder = project / "spark_jobs" / "contracts"
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(DECLARED.format(name=NAME))
    (project / "pyproject.toml").write_text("[tool.anabranch]\n")
    settings = broker.model_copy(update={"project": project, "home": project / "home"})
    create_missing(settings, list(load_declarations(folder).topics.values()))
    return settings


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in environment(settings).items():
        if name.startswith("ANABRANCH_"):
            monkeypatch.setenv(name, value)
    return lambda *arguments, given=None: CliRunner().invoke(app, list(arguments), input=given)


def test_events_get_their_envelope(settings: Settings) -> None:
    receipt = anabranch.send(SALES, {"cents": 7}, type="sale.made", id="s-1", subject="till", settings=settings)
    assert receipt.offset is not None
    record = at(settings, SALES, receipt.partition, receipt.offset)
    assert record is not None
    event = json.loads(record.value or b"")
    assert (record.key, event["id"], event["data"], event["dataschema"]) == (
        b"till", "s-1", {"cents": 7}, "urn:anabranch:contract:sale.made:1",
    )  # fmt: skip
    many = anabranch.send_all(SALES, [{"cents": n} for n in range(50)], type="sale.made", settings=settings)
    assert len({(each.partition, each.offset) for each in many}) == 50
    assert len(newest(settings, SALES, 51)) == 51


def test_plain_records_are_sent_as_they_are(settings: Settings) -> None:
    receipt = anabranch.send(BILLS, {"bill": "b-1", "more": [1, None]}, settings=settings)
    assert receipt.offset is not None
    record = at(settings, BILLS, receipt.partition, receipt.offset)
    assert record is not None
    assert (record.key, record.value) == (b"b-1", b'{"bill":"b-1","more":[1,null]}')


@pytest.mark.parametrize(
    ("topic", "record", "given", "what"),
    [
        (SALES, {"cents": 1}, {}, "several event types"),
        (SALES, {"cents": 1}, {"type": "sale.lost"}, "has no 'sale.lost'"),
        (SALES, {"cents": "1"}, {"type": "sale.made"}, "data.cents"),
        (BILLS, {"at": "2026-01-01T00:00:00Z"}, {}, "bill"),
        (PUSHES, {"bill": "a"}, {}, "header push: is missing"),
        (BILLS, {"bill": {1}}, {}, "can't be written as JSON"),
        (BILLS, {"bill": "a", "x": float("nan")}, {}, "can't be written as JSON"),
    ],
)
def test_what_is_wrong_is_not_sent(settings: Settings, topic: str, record: Any, given: Any, what: str) -> None:
    before, right = len(newest(settings, topic, 10_000)), [{"bill": "right"}] if topic == BILLS else []
    with pytest.raises(BadInput, match="EVENT_REFUSED") as refused:
        anabranch.send_all(topic, [*right, record], settings=settings, **given)
    assert what in str(refused.value)
    assert len(newest(settings, topic, 10_000)) == before


def test_an_id_in_a_header_is_that_of_one_record(settings: Settings, run: Any) -> None:
    bill = {"bill": "b-2"}
    receipt = anabranch.send(PUSHES, bill, headers={"push": "p-1", "more": "x"}, settings=settings)
    assert receipt.offset is not None
    record = at(settings, PUSHES, receipt.partition, receipt.offset)
    assert record is not None
    assert record.headers == (("push", b"p-1"), ("more", b"x"))
    with pytest.raises(BadInput, match="one id can't stand for several records"):
        anabranch.send_all(PUSHES, [bill, bill], headers={"push": "p-2"}, settings=settings)
    refused = run("produce", "records", PUSHES, "-", given='{"bill": "b-3"}\n')
    assert "need headers (push), which lines can't carry" in refused.stderr
    assert len(newest(settings, PUSHES, 10)) == 1


def test_lines_are_sent_from_a_file_and_the_standard_input(run: Any, settings: Settings, tmp_path: Path) -> None:
    lines = '\ufeff{"bill": "l-1", "amount": 1.50e2}\r\n\n{"bill":"l-2"}\n'
    (tmp_path / "bills.jsonl").write_bytes(lines.encode())
    done = run("produce", "records", BILLS, str(tmp_path / "bills.jsonl"), "--rate", "1000")
    assert "2 records of" in done.stdout, done.stderr
    done = run("produce", "records", BILLS, "-", given='{"bill": "l-3"}\n')
    assert "1 records of - are in the log" in done.stdout
    values = [record.value or b"" for record in newest(settings, BILLS, 3)]
    assert sorted(values) == [b'{"bill": "l-1", "amount": 1.50e2}', b'{"bill": "l-3"}', b'{"bill":"l-2"}']
    wrong = run("produce", "records", BILLS, "-", given='{"bill": "l-4"}\n{"bill": 5}\n{"bill": "l-6"}\n')
    assert "line 2: bill: 5 is not of type" in wrong.stderr
    assert "sent before it: 1 line" in wrong.stderr
    assert newest(settings, BILLS, 1)[0].value == b'{"bill": "l-4"}'
    assert "EVENT_FILE" in run("produce", "records", BILLS, str(tmp_path / "nowhere")).stderr


def test_records_are_shown_as_they_are(run: Any, settings: Settings) -> None:
    producer = raw_producer(settings)
    headers: list[tuple[str, str | bytes | None]] = [("ce-id", b"1"), ("odd", b"\xff"), ("none", None)]
    producer.produce(BILLS, value=b'{"amount": 12345678901234567890.10}', key=b"\x00\xff", headers=headers, partition=1)
    producer.produce(BILLS, value=None, key=b"gone", partition=1)
    producer.produce(BILLS, value=b"\x1b[31mnot JSON", partition=1)
    assert producer.flush(30) == 0
    shown = run("events", "tail", BILLS, "-n", "3").stdout
    assert "deleted (no value)" in shown
    assert "\x1b" not in shown
    assert "ce-id: 1" in shown
    lines = run("events", "tail", BILLS, "-n", "3", "--json").stdout.splitlines()
    assert '"value": {"amount": 12345678901234567890.10}' in lines[0]
    assert [json.loads(line)["value"] for line in lines[1:]] == [None, "\x1b[31mnot JSON"]
    assert json.loads(lines[0])["key"] == {"base64": "AP8="}
    offset = json.loads(lines[1])["offset"]
    one = run("events", "show", BILLS, f"1:{offset}", "--json")
    assert json.loads(one.stdout)["landed"] is None
    assert "not landed yet" in run("events", "show", BILLS, f"1:{offset}").stdout
    assert "NO_RECORD" in run("events", "show", BILLS, "1:999999").stderr
    assert "PARAMETER" in run("events", "show", BILLS, "first").stderr
    assert "TOPIC_MISSING" in run("events", "tail", "nowhere").stderr


def test_what_comes_is_followed(settings: Settings) -> None:
    coming = follow(settings, SALES)
    sender = threading.Timer(
        3.0, lambda: anabranch.send(SALES, {"cents": 1}, type="sale.made", id="new", settings=settings)
    )
    sender.start()
    try:
        assert json.loads(next(coming).value or b"")["id"] == "new"
    finally:
        sender.join()
        coming.close()  # type: ignore[attr-defined]
