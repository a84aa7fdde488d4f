"""Who is let in, and what each answer says. The broker's side is in tests/faults/test_http_ingest.py."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import os
import stat
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from anabranch.apps.cli.main import app as command_line
from anabranch.contracts import Contract, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.http import _app, access
from anabranch.ingest.http._bodies import STRUCTURED, Prepared
from anabranch.ingest.http._sender import Busy, Refused, Sender, Undelivered, _Request
from anabranch.operate.runtime._services import catalog, parts_named
from support.page_app import TestClient
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
CONTRACT = Contract("payment.made", 1, {"type": "object", "properties": {"cents": {"type": "integer"}}})
DECLARED = Declarations({name: Topic(name, (CONTRACT,), max_message_bytes=2_000) for name in ("payments", "other")})
EVENT = b'{"specversion":"1.0","id":"a","source":"/s","type":"payment.made","time":"2024-01-01T00:00:00Z","data":{}}'
TYPED = {"content-type": STRUCTURED}


@pytest.fixture
def settings(tmp_path: Any) -> Settings:
    return Settings(home=tmp_path / "home", project=tmp_path, http_checked_topics=("payments",))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was given to the broker; an exception in it is raised instead."""
    given: list[Any] = []

    async def send(self: Sender, topic: str, records: Sequence[Prepared]) -> list[tuple[int, int]]:
        await asyncio.sleep(0)
        if given and isinstance(given[0], BaseException):
            raise given[0]
        given.extend((topic, record.value) for record in records)
        return [(0, number) for number in range(len(records))]

    async def stop(self: Sender) -> None:
        return None

    monkeypatch.setattr(Sender, "start", lambda self: None)
    monkeypatch.setattr(Sender, "send", send)
    monkeypatch.setattr(Sender, "stop", stop)
    return given


def test_the_answer_names_no_offset_that_the_broker_has_not_named(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a record that it has already, sent again by the idempotent client, it says nothing else."""

    async def send(self: Sender, topic: str, records: Sequence[Prepared]) -> list[tuple[int, int | None]]:
        request = _Request("sales", asyncio.get_running_loop().create_future(), [(-1, None)] * 2, 2, 0)
        for number, offset in enumerate((None, 0)):
            answer: Any = SimpleNamespace(partition=lambda: 1, offset=lambda known=offset: known)
            self._count_answer(request, number, None, answer)
        self._settle()
        return await request.done

    monkeypatch.setattr(Sender, "send", send)
    monkeypatch.setattr(Sender, "_count", _counted)
    token = access.allow(settings, "till-1", ["payments"])
    answer = client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED)
    assert answer.json() == {"records": [{"partition": 1, "offset": None}, {"partition": 1, "offset": 0}]}


def _counted(self: Sender, request: _Request, error: object, number: int) -> None:
    request.left -= 1
    if request.left == 0:
        self._answered.append(request)


@pytest.fixture
def client(settings: Settings, given: list[Any]) -> Iterator[TestClient]:
    with TestClient(_app.application(settings, DECLARED)) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_token_opens_its_topics_only(client: TestClient, settings: Settings, given: list[Any]) -> None:
    token = access.allow(settings, "till-1", ["payments"])
    answer = client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED)
    assert (answer.status_code, answer.json()) == (200, {"records": [{"partition": 0, "offset": 0}]})
    assert [topic for topic, _ in given] == ["payments"]
    other = client.post("/topics/other", content=EVENT, headers=bearer(token) | TYPED)
    assert (other.status_code, other.json()["code"], other.json()["state"]) == (403, "NOT_ALLOWED", "nothing was sent")
    half = EVENT.replace(b"2024-01-01T00:00:00Z", rb"\ud800")
    answer = client.post("/topics/payments", content=half, headers=bearer(token) | TYPED)
    assert (answer.status_code, "surrogate" in answer.json()["what"]) == (422, True)
    for wrong in ({}, bearer("x"), bearer(""), {"authorization": f"Basic {token}"}, bearer(token[:-1])):
        answer = client.post("/topics/payments", content=EVENT, headers=wrong | TYPED)
        assert (answer.status_code, answer.content) == (401, b"")
        assert client.post("/topics/nobody", content=EVENT, headers=wrong | TYPED).status_code == 401
    assert len(given) == 1


def test_a_revoked_token_and_a_new_one(
    client: TestClient, settings: Settings, given: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.0)
    first = access.allow(settings, "till", ["payments"])
    second = access.allow(settings, "till", ["payments"])
    assert client.post("/topics/payments", content=EVENT, headers=bearer(first) | TYPED).status_code == 401
    assert client.post("/topics/payments", content=EVENT, headers=bearer(second) | TYPED).status_code == 200
    assert access.revoke(settings, "till")
    assert not access.revoke(settings, "till")
    assert client.post("/topics/payments", content=EVENT, headers=bearer(second) | TYPED).status_code == 401


def test_a_file_that_cant_be_read_locks_nobody_out(
    client: TestClient, settings: Settings, given: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.0)
    token = access.allow(settings, "till", ["payments"])
    assert client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED).status_code == 200
    (access.clients_folder(settings) / "broken.json").write_text("{")
    assert client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED).status_code == 200

    other = access.allow(settings, "other", ["payments"])
    assert client.post("/topics/payments", content=EVENT, headers=bearer(other) | TYPED).status_code == 200
    (access.clients_folder(settings) / "other.json").write_text("{")
    assert client.post("/topics/payments", content=EVENT, headers=bearer(other) | TYPED).status_code == 200
    assert access.revoke(settings, "till")
    assert client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED).status_code == 401


def test_a_file_that_can_be_read_a_moment_later_lets_its_client_in(
    client: TestClient, settings: Settings, given: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing about the file changes meanwhile: too many were open."""
    monkeypatch.setattr(access, "_LOOK_SECONDS", 0.0)
    token = access.allow(settings, "till", ["payments"])

    def fails(*_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(type(access.CLIENT), "read", fails)
        assert client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED).status_code == 401
    assert client.post("/topics/payments", content=EVENT, headers=bearer(token) | TYPED).status_code == 200


def test_what_can_never_be_taken_is_refused_for_good(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = access.allow(settings, "till", ["payments"])
    monkeypatch.setattr(_app, "MOST_RECORDS", 1)
    batch = {"content-type": "application/cloudevents-batch+json"}
    answer = client.post("/topics/payments", content=b"[%s,%s]" % (EVENT, EVENT), headers=bearer(token) | batch)
    assert (answer.status_code, "2 records are more than the 1" in answer.json()["what"]) == (413, True)
    limit = DECLARED.topics["payments"].max_message_bytes
    monkeypatch.setattr(_app, "RECORD_OVERHEAD", limit - 1_000)  # so a record has 1,000 bytes, with its headers
    binary = {
        "content-type": "application/json", "ce-specversion": "1.0", "ce-id": "a", "ce-source": "/s",
        "ce-type": "payment.made", "ce-time": "2024-01-01T00:00:00Z", "ce-subject": "k",
    }  # fmt: skip
    small = client.post("/topics/payments", content=b'{"cents":1}', headers=bearer(token) | binary)
    assert small.status_code == 200
    answer = client.post(
        "/topics/payments", content=b'{"cents":1}', headers=bearer(token) | binary | {"ce-x": "x" * 999}
    )
    assert (answer.status_code, "bytes are more than topic payments takes" in answer.json()["what"]) == (413, True)


def test_a_webhook_is_let_in_by_its_signature(client: TestClient, settings: Settings, given: list[Any]) -> None:
    secret = access.allow(settings, "github", ["payments"], webhook=True)
    signed = "sha256=" + hmac.new(secret.encode(), EVENT, hashlib.sha256).hexdigest()
    right = {"x-hub-signature-256": signed} | TYPED
    assert client.post("/webhooks/github", content=EVENT, headers=right).status_code == 200
    for path, body, headers in (
        ("github", EVENT + b" ", right),
        ("nobody", EVENT, right),
        ("github", EVENT, TYPED),
        ("github", EVENT, TYPED | {"x-hub-signature-256": signed.upper()}),
    ):
        answer = client.post(f"/webhooks/{path}", content=body, headers=headers)
        assert (answer.status_code, answer.content) == (401, b"")
    for path in ("github", "nobody"):
        answer = client.post(f"/webhooks/{path}", content=b" " * (_app.MOST_BYTES + 1), headers=TYPED)
        assert (answer.status_code, answer.content) == (401, b""), "what can't be checked says nothing either"
    assert client.post("/topics/payments", content=EVENT, headers=bearer(secret) | TYPED).status_code == 401


def test_secrets_are_readable_by_their_owner_only(settings: Settings) -> None:
    token = access.allow(settings, "till", ["payments"])
    folder = access.clients_folder(settings)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert token not in "".join(file.read_text() for file in folder.iterdir())
    with pytest.raises(BadInput, match="CLIENT_NAME"):
        access.allow(settings, "../till", ["payments"])
    assert not access.revoke(settings, "../../secrets")


def test_a_checked_topic_names_the_field(client: TestClient, settings: Settings, given: list[Any]) -> None:
    headers = bearer(access.allow(settings, "till", ["payments", "other"])) | TYPED
    wrong = EVENT.replace(b'"data":{}', b'"data":{"cents":"1"}')
    answer = client.post("/topics/payments", content=wrong, headers=headers)
    assert answer.status_code == 422
    assert (answer.json()["field"], answer.json()["record"]) == ("data.cents", 0)
    assert not given
    assert client.post("/topics/other", content=wrong, headers=headers).status_code == 200, "landing decides"


def test_sizes_are_limited(client: TestClient, settings: Settings, given: list[Any]) -> None:
    headers = bearer(access.allow(settings, "till", ["other"])) | TYPED
    large = EVENT.replace(b'"data":{}', b'"data":{"x":"' + b"x" * 2_000 + b'"}')
    answer = client.post("/topics/other", content=large, headers=headers)
    assert (answer.status_code, "record 0" in answer.json()["what"]) == (413, True)
    answer = client.post("/topics/other", content=b" " * (_app.MOST_BYTES + 1), headers=headers)
    assert answer.status_code == 413
    assert not given


@pytest.mark.parametrize(
    ("error", "status", "state"),
    [
        (Busy(), 429, "nothing was sent"),
        (Undelivered("x"), 503, "may or may not"),
        (asyncio.CancelledError(), 503, "may or may not"),
    ],
)
def test_a_broker_that_is_behind_or_gone_is_said(
    client: TestClient, settings: Settings, given: list[Any], error: BaseException, status: int, state: str
) -> None:
    given.append(error)
    headers = bearer(access.allow(settings, "till", ["other"])) | TYPED
    answer = client.post("/topics/other", content=EVENT, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "1")
    assert state in answer.json()["state"]


def test_a_record_that_the_broker_never_takes_is_no_case_for_sending_it_again(
    client: TestClient, settings: Settings, given: list[Any]
) -> None:
    given.append(Refused(1, "no key"))
    headers = bearer(access.allow(settings, "till", ["other"]))
    batch = {"content-type": "application/cloudevents-batch+json"}
    for body, kind, state in ((EVENT, TYPED, "nothing"), (b"[%s,%s]" % (EVENT, EVENT), batch, "the other records may")):
        answer = client.post("/topics/other", content=body, headers=headers | kind)
        assert (answer.status_code, answer.json()["code"], answer.json()["record"]) == (422, "EVENT_REFUSED", 1)
        assert "retry-after" not in answer.headers
        assert state in answer.json()["state"]


def test_what_is_no_address_of_ours(client: TestClient, settings: Settings) -> None:
    headers = bearer(access.allow(settings, "till", ["gone"])) | TYPED
    assert client.post("/topics/gone", content=EVENT, headers=headers).json()["code"] == "TOPIC_MISSING"
    assert client.get("/topics/payments").status_code == 405
    assert client.post("/topics/a/b", content=EVENT, headers=headers).status_code == 404
    assert client.get("/health").json() == {"behind": False}


def test_it_ends_when_nobody_would_be_answered_any_more(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seconds: float) -> int:
        raise RuntimeError("the client of Kafka is broken")

    sender, ended = Sender(settings, DECLARED), list[int]()
    monkeypatch.setattr(sender, "_client", SimpleNamespace(poll=fails))
    monkeypatch.setattr(os, "_exit", ended.append)
    sender._poll()
    assert ended == [1]


def test_a_client_that_can_not_go_on_ends_the_process_after_it_has_answered(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[int]()
    fatal = confluent_kafka.KafkaError(confluent_kafka.KafkaError._FATAL)

    def refuse(*_: object, **__: object) -> None:
        raise confluent_kafka.KafkaException(fatal)

    async def one() -> None:
        sender = Sender(settings, DECLARED)
        sender._loop = asyncio.get_running_loop()
        monkeypatch.setattr(sender, "_client", SimpleNamespace(produce=refuse, poll=lambda _: 0))
        monkeypatch.setattr(os, "_exit", ended.append)
        with pytest.raises(Undelivered):
            await sender.send("payments", [Prepared(b"k", EVENT, {})])
        asyncio.get_running_loop().call_later(5, sender._stopped.set)
        await asyncio.to_thread(sender._poll)

    asyncio.run(one())
    assert ended == [1]


def test_it_is_a_part_once_somebody_is_let_in(settings: Settings) -> None:
    assert "http" not in [part.name for part in catalog(settings)]
    with pytest.raises(BadInput, match="NO_CLIENTS"):
        parts_named(settings, ["http"])
    access.allow(settings, "till", ["payments"])
    (part,) = (part for part in catalog(settings) if part.name == "http")
    assert (part.port, part.depends_on) == (settings.http_port, ("kafka",))
    assert not part.ready(1.0)


def test_beyond_this_machine_only_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HTTP_HOST", "0.0.0.0")  # noqa: S104
    with pytest.raises(BadInput, match="without TLS anyone"):
        load_settings()
    monkeypatch.setenv("ANABRANCH_HTTP_CERTIFICATE", "/certificate.pem")
    assert load_settings().http_host == "0.0.0.0"  # noqa: S104


def test_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(command_line, ["http", *arguments])

    assert "Next: anabranch http allow" in run("list").stdout
    said = run("allow", "till-1", "--topic", "flights").stdout
    assert "token of till-1, shown once: " in said
    assert "POST http://127.0.0.1:18090/topics/flights" in said
    assert "/webhooks/github, signed" in run("allow", "github", "--topic", "flights", "--webhook").stdout
    listed = run("list").stdout
    assert all(word in listed for word in ("till-1", "flights", "token", "signature"))
    assert said.split("once: ")[1].split()[0] not in listed
    assert "TOPIC_MISSING" in run("allow", "x", "--topic", "nowhere").stderr
    assert "CLIENT_TOPICS" in run("allow", "x", "--topic", "flights", "--topic", "weather", "--webhook").stderr
    assert run("revoke", "till-1").exit_code == 0
    assert "CLIENT_NAME" in run("revoke", "till-1").stderr


def test_the_broker_is_given_the_name_that_the_topic_has_there(settings: Settings, given: list[Any]) -> None:
    token = access.allow(settings, "till-1", ["payments"])
    declared = Declarations({"payments": Topic("payments", (CONTRACT,), kafka_topic="prod.payments-v2")})
    with TestClient(_app.application(settings, declared)) as client:
        for name, status in (("payments", 200), ("prod.payments-v2", 403)):
            assert client.post(f"/topics/{name}", content=EVENT, headers=bearer(token) | TYPED).status_code == status
    assert [topic for topic, _ in given] == ["prod.payments-v2"]
