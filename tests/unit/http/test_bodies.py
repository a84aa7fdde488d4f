"""Requests become records: every mode of CloudEvents, plain JSON, and what can't be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anabranch.contracts import CloudEvents, Contract, Header, PlainJson, Record, Topic, TypeField
from anabranch.contracts.sending import RecordCheck
from anabranch.ingest.http import _bodies
from anabranch.ingest.http._bodies import BATCH, JSON, LINES, STRUCTURED, Unreadable, prepare
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit
NOW = datetime(2026, 11, 25, 1, 2, 3, tzinfo=UTC)
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["paymentId", "cents"],
        "properties": {
            "paymentId": {"type": "string"},
            "cents": {"type": "integer", "minimum": 0},
            "made": {"type": "string", "format": "date-time"},
            "shop": {"type": "object", "properties": {"city": {"type": "string", "sent_as": "town"}}},
        },
    },
)
VOID = Contract("payment.void", 1, {"type": "object", "properties": {"paymentId": {"type": "string"}}})
EVENTS = Topic("payments", (PAID, VOID))
PLAIN = Topic("till", (PAID,), records=PlainJson(id="paymentId", time="made", subject="shop.city"))
BY_KEY = Topic("keyed", (PAID,), records=PlainJson(id=Record.KEY, time="made"))
IN_HEADERS = Topic(
    "pushes",
    (PAID, VOID),
    records=PlainJson(id=Header("Event-Id"), time=Record.APPEND_TIME, type=TypeField(Header("X-Kind"))),
)
TIMELESS = Record.APPEND_TIME
NO_ID = Topic("noid", (PAID,), records=PlainJson(id=Record.OFFSET, time="made"))
EVENT = (
    '{"specversion":"1.0","id":"a","source":"/s","type":"payment.made","subject":"k","time":"2024-01-01T00:00:00Z",'
    '"data":{"paymentId":"a","cents":1.50e2,"big":123456789012345678901234567890}}'
)


def sent(topic: Topic, body: str | bytes, media: str = STRUCTURED, **headers: str) -> list[Any]:
    given = {"content-type": media} | {name.replace("_", "-"): value for name, value in headers.items()}
    return prepare(topic, given, body.encode() if isinstance(body, str) else body, NOW)


def test_a_structured_event_keeps_its_characters() -> None:
    (record,) = sent(EVENTS, f"\n {EVENT} ", f"{STRUCTURED}; charset=utf-8")
    assert record.key == b"k"
    assert record.value == f'{{"dataschema":"{PAID.uri}",{EVENT[1:]}'.encode()
    named = EVENT.replace('"data":', '"dataschema":"urn:mine","data":')
    assert sent(EVENTS, named)[0].value == named.encode()


def test_headers_that_a_mapping_names_become_the_records_own() -> None:
    body = '{"paymentId":"a","cents":1}'
    (record,) = sent(IN_HEADERS, body, JSON, event_id="17", x_kind="payment.made", x_other="no")
    assert record.headers == [("Event-Id", b"17"), ("X-Kind", b"payment.made")]
    assert RecordCheck(IN_HEADERS).problem(record.value, record.content, record.headers) is None
    (record,) = sent(IN_HEADERS, body, JSON, idempotency_key="again", x_kind="payment.lost")
    assert record.headers == [("X-Kind", b"payment.lost"), ("Event-Id", b"again")]
    problem = RecordCheck(IN_HEADERS).problem(record.value, record.content, record.headers)
    assert problem == ("header X-Kind", "'payment.lost' is none of topic pushes (payment.made, payment.void)")
    assert RecordCheck(IN_HEADERS).problem(record.value, record.content) == ("header Event-Id", "is missing")
    with pytest.raises(Unreadable, match="one key can't stand for several"):
        sent(IN_HEADERS, f"[{body},{body}]", JSON, event_id="17")


def test_the_time_of_receipt_is_added_to_what_says_when_it_was_sent() -> None:
    (record,) = sent(EVENTS, EVENT.replace('"data":', '"senttime":"2024-01-01T00:00:00Z","data":'))
    assert json.loads(record.value)["receivedtime"] == "2026-11-25T01:02:03Z"


def test_a_batch_is_as_many_records_each_with_its_characters() -> None:
    other = EVENT.replace('"id":"a"', '"id":"b"').replace('"subject":"k",', "")
    for body, media in ((f"[{EVENT} ,\n{other}]", BATCH), (f"{EVENT}\r\n\n{other}\n", LINES)):
        first, second = sent(EVENTS, body, media)
        assert (first.key, second.key) == (b"k", None)
        assert first.value.endswith(EVENT[1:].encode())
        assert second.value.endswith(other[1:].encode())


def test_binary_mode_is_the_same_event() -> None:
    data = '{"paymentId":"a","cents":1.50e2}'
    headers = {"ce_specversion": "1.0", "ce_id": "a", "ce_source": "/s", "ce_type": "payment.made"}
    (record,) = sent(EVENTS, data, JSON, ce_subject="caf%C3%A9 %22x%22", ce_time="2024-01-01T00:00:00Z", **headers)
    assert record.key == 'café "x"'.encode()
    assert f'"data":{data}'.encode() in record.value
    event = json.loads(record.value)
    assert (event["id"], event["dataschema"], event["time"]) == ("a", PAID.uri, "2024-01-01T00:00:00Z")
    assert RecordCheck(EVENTS).problem(record.value, record.content) == ("data.cents", '150.0 is not of type "integer"')


def test_a_repeated_request_is_one_event() -> None:
    without = EVENT.replace('"id":"a",', "")
    for name in ("idempotency_key", "x_github_delivery"):
        assert json.loads(sent(EVENTS, without, **{name: "r-1"})[0].value)["id"] == "r-1"
    assert json.loads(sent(EVENTS, EVENT, idempotency_key="r-1")[0].value)["id"] == "a", "it has an id"
    assert sent(BY_KEY, '{"cents":1}', JSON, idempotency_key="r-1")[0].key == b"r-1"
    assert sent(BY_KEY, '{"cents":1}', JSON, idempotency_key="r-1", record_key="mine")[0].key == b"mine"
    for topic, body, media in (
        (EVENTS, f"[{without},{without}]", BATCH),
        (BY_KEY, "[{},{}]", JSON),
        (NO_ID, "{}", JSON),
    ):
        with pytest.raises(Unreadable) as refused:
            sent(topic, body, media, idempotency_key="r-1")
        assert refused.value.status == 400


def test_plain_json_is_sent_as_it_is() -> None:
    one = '{"paymentId": "p 1", "cents": 1.10, "shop": {"town": "Łódź"}}'
    (record,) = sent(PLAIN, f" {one}\n", JSON)
    assert (record.key, record.value) == ("Łódź".encode(), one.encode())
    several = sent(PLAIN, f"[{one}, {{}}]", JSON)
    assert [each.value for each in several] == [one.encode(), b"{}"]
    assert several[1].key is None
    assert [each.value for each in sent(PLAIN, f"{one}\n{{}}", LINES)] == [one.encode(), b"{}"]


@pytest.mark.parametrize(
    ("topic", "body", "media", "status", "what"),
    [
        (EVENTS, EVENT, JSON, 415, "takes CloudEvents"),
        (EVENTS, EVENT, "", 415, "without a content type"),
        (PLAIN, EVENT, STRUCTURED, 200, ""),
        (PLAIN, "a,b", "text/csv", 415, "takes plain JSON"),
        (EVENTS, "{", STRUCTURED, 400, "record 0: not JSON"),
        (EVENTS, EVENT + "x", STRUCTURED, 400, "more behind the object"),
        (EVENTS, "7", STRUCTURED, 400, "a JSON object is needed, not int"),
        (EVENTS, "", STRUCTURED, 400, "not JSON"),
        (EVENTS, "[]", BATCH, 400, "no record"),
        (EVENTS, "\n", LINES, 400, "no record"),
        (EVENTS, EVENT, BATCH, 400, "no JSON array"),
        (EVENTS, f"[{EVENT} {EVENT}]", BATCH, 400, "comma or ]"),
        (EVENTS, f"[{EVENT},]", BATCH, 400, "record 1: not JSON"),
        (EVENTS, f"[{EVENT}", BATCH, 400, "comma or ]"),
        (EVENTS, f"[{EVENT}]]", BATCH, 400, "more behind the array"),
        (EVENTS, '{"data":NaN}', STRUCTURED, 400, "NaN is no JSON number"),
        (EVENTS, b'{"id":"\xff"}', STRUCTURED, 400, "byte 7 of the body is not UTF-8"),
        (EVENTS, '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", STRUCTURED, 400, "not JSON"),
        (EVENTS, '{"a":' + "9" * 5_000 + "}", STRUCTURED, 400, "not JSON"),
        (EVENTS, '{"data":-Infinity}', STRUCTURED, 400, "-Infinity is no JSON number"),
    ],
)
def test_what_cant_be_read_says_where(topic: Topic, body: str | bytes, media: str, status: int, what: str) -> None:
    if status == 200:
        assert sent(topic, body, media)
        return
    with pytest.raises(Unreadable) as refused:
        sent(topic, body, media)
    assert (refused.value.status, what in refused.value.what) == (status, True), refused.value.what
    assert refused.value.next_step


OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(st.lists(OBJECTS, min_size=1, max_size=5), st.sampled_from(["", " ", "\n\t "]), st.booleans())
def test_each_record_of_any_batch_is_its_own_part(objects: list[dict[str, Any]], space: str, ascii_only: bool) -> None:
    texts = [json.dumps(each, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for each in objects]
    joined = space.encode() + b"[" + f"{space},{space}".encode().join(texts) + space.encode() + b"]"
    assert [record.value for record in prepare(PLAIN, {"content-type": JSON}, joined)] == texts


def problems(topic: Topic) -> Callable[[dict[str, Any]], tuple[str, str] | None]:
    check = RecordCheck(topic)
    return lambda content: check.problem(json.dumps(dict(content)).encode(), content)


def test_a_decimal_is_held_to_the_digits_that_were_sent() -> None:
    price = {"type": "number", "format": "decimal", "precision": 6, "scale": 2}
    contract = Contract("price.set", 1, {"type": "object", "properties": {"price": price}})
    plain = Topic("prices", (contract,), records=PlainJson(id=Record.KEY, time=Record.APPEND_TIME))
    for topic, body, media, at in (
        (plain, '{"price": %s}', JSON, "price"),
        (Topic("prices", (contract,)), EVENT.replace("payment.made", "price.set").replace(
            '{"paymentId":"a","cents":1.50e2,"big":123456789012345678901234567890}', '{"price":%s}'), STRUCTURED,
            "data.price"),
    ):  # fmt: skip
        for digits, refused in (("1.10", False), ("1.100", False), ("1.105", True), ("1e1", True), ('"1.10"', True)):
            (record,) = sent(topic, body % digits, media)
            problem = RecordCheck(topic).problem(record.value, record.content)
            assert (problem is not None and problem[0]) == (at if refused else False), (digits, problem)


def test_half_a_surrogate_pair_is_no_text() -> None:
    """Landing takes it where any text is right, and so does the check; where a text has a form, it has none."""
    half = EVENT.replace("1.50e2", "1").replace('"subject":"k"', '"subject":"\\ud800"')
    (record,) = sent(EVENTS, half)
    assert record.key == b"?"
    assert RecordCheck(EVENTS).problem(record.value, record.content) is None
    for field in ("time", "type"):
        (wrong,) = sent(EVENTS, re.sub(f'"{field}":"[^"]*"', f'"{field}":"\\\\ud800"', half))
        assert RecordCheck(EVENTS).problem(wrong.value, wrong.content) is not None
    (plain,) = sent(PLAIN, '{"paymentId":"a","cents":1,"made":"\\udfff"}', JSON)
    assert RecordCheck(PLAIN).problem(plain.value, plain.content) is not None


def test_no_header_takes_the_place_of_the_data() -> None:
    with pytest.raises(Unreadable, match="no attribute named data"):
        sent(EVENTS, "{}", JSON, ce_id="a", ce_data="x")


def test_the_door_names_the_field() -> None:
    (good,) = sent(EVENTS, EVENT.replace("1.50e2", "150").replace('"subject":"k",', ""))
    check = problems(EVENTS)
    assert check(good.content) is None
    wrong = {**good.content, "data": {"paymentId": "a"}}
    assert check(wrong) == ("data.cents", '"cents" is a required property')
    assert check({**good.content, "id": ""})[0] == "id"  # type: ignore[index]
    field, why = check({**good.content, "type": "payment.lost"}) or ("", "")
    assert (field, "payment.lost" in why, "payment.made, payment.void" in why) == ("type", True, True)
    assert check({**good.content, "dataschema": "urn:other"}) is not None


def test_the_door_of_plain_json_takes_any_of_its_versions() -> None:
    second = Contract("payment.made", 2, {**PAID.schema, "required": ["paymentId"]})
    mapped = PlainJson(id="paymentId", time="made", type=TypeField("paymentId", {"p": "payment.made"}))
    check = problems(Topic("till", (PAID, second), records=PlainJson(id="paymentId", time="made")))
    assert check({"paymentId": "a"}) is None
    assert check({"cents": 1}) == ("paymentId", '"paymentId" is a required property')
    by_type = problems(Topic("till", (PAID, second), records=mapped))
    assert by_type({"paymentId": "p"}) is None
    assert by_type({"paymentId": "x"}) == ("paymentId", "'x' is none of topic till (payment.made)")


def test_the_time_of_receipt_of_an_event_is_the_servers() -> None:
    later = NOW + timedelta(days=1)
    (record,) = prepare(
        EVENTS, {"content-type": STRUCTURED}, EVENT.replace('"data":', '"senttime":"x","data":').encode(), later
    )
    assert json.loads(record.value)["receivedtime"] == "2026-11-26T01:02:03Z"


def test_a_wrong_line_is_named() -> None:
    good = '{"paymentId":"a","cents":1,"made":"2024-01-01T00:00:00Z"}'
    with pytest.raises(Unreadable, match="record 2: not JSON"):
        sent(PLAIN, f"{good}\n{good}\nx", LINES)
    with pytest.raises(Unreadable, match="record 1: there is more behind the object"):
        sent(PLAIN, f"{good}\n{good} {good}", LINES)


@pytest.mark.parametrize("binary", [False, True])
def test_events_of_others_get_the_newest_contract_of_their_type_and_are_checked_by_it(binary: bool) -> None:
    topic = Topic("payments", (PAID, VOID), records=CloudEvents({"com.example.Paid": PAID.name}, {"x/1": 1}, TIMELESS))
    named = {"specversion": "1.0", "id": "a", "source": "/s", "type": "com.example.Paid"}

    def problem(data: dict[str, Any], **more: str) -> tuple[str, str] | None:
        if binary:
            given = {f"ce-{name}": text for name, text in {**named, **more}.items()}
            (record,) = prepare(topic, {"content-type": JSON, **given}, json.dumps(data).encode(), NOW)
        else:
            (record,) = sent(topic, json.dumps({**named, **more, "data": data}))
        assert json.loads(record.value)["dataschema"] == more.get("dataschema", PAID.uri)
        return RecordCheck(topic).problem(record.value, record.content)

    assert problem({"paymentId": "a", "cents": 1}) is None
    assert problem({"paymentId": "a", "cents": 1}, dataschema="x/1") is None
    assert problem({"paymentId": "a", "cents": -1}) == ("data.cents", "-1 is less than the minimum of 0")
    unknown = problem({"paymentId": "a", "cents": 1}, dataschema="x/2")
    assert unknown is not None
    assert (unknown[0], "'com.example.Paid' with dataschema 'x/2' is none of topic" in unknown[1]) == ("type", True)


def test_data_in_base64_is_named_at_the_door() -> None:
    (record,) = sent(EVENTS, EVENT.replace('"data":', '"data_base64":"e30=","other":'))
    problem = RecordCheck(EVENTS).problem(record.value, record.content)
    assert problem == ("data_base64", "isn't read: the data of an event is a JSON object, in data")


def test_headers_are_utf_8() -> None:
    """Starlette gives their bytes as Latin-1."""
    city = "Zürich-Łódź".encode().decode("latin-1")
    body = '{"paymentId":"a","cents":1}'
    assert sent(BY_KEY, body, JSON, record_key=city)[0].key == "Zürich-Łódź".encode()
    assert sent(BY_KEY, body, JSON, idempotency_key=city)[0].key == "Zürich-Łódź".encode()
    (record,) = sent(IN_HEADERS, body, JSON, event_id=city, x_kind="payment.made")
    assert record.headers == [("Event-Id", "Zürich-Łódź".encode()), ("X-Kind", b"payment.made")]
    (record,) = sent(IN_HEADERS, body, JSON, idempotency_key=city, x_kind="payment.made")
    assert ("Event-Id", "Zürich-Łódź".encode()) in record.headers
    (record,) = sent(EVENTS, body, JSON, ce_id="%C5%81", ce_subject=city, ce_type="payment.made")
    assert (record.key, json.loads(record.value)["id"]) == ("Zürich-Łódź".encode(), "Ł")


@pytest.mark.parametrize(
    ("topic", "headers"),
    [(BY_KEY, {"record_key": "\xfc"}), (BY_KEY, {"idempotency_key": "\xfc"}), (IN_HEADERS, {"event_id": "\xfc"}),
     (EVENTS, {"ce_id": "%ff"}), (EVENTS, {"ce_id": "a", "ce_subject": "\xfc"})],
)  # fmt: skip
def test_headers_that_are_not_are_named(topic: Topic, headers: dict[str, str]) -> None:
    """Two ids that differ would become one by a replacement of their bytes."""
    with pytest.raises(Unreadable, match="is not UTF-8") as refused:
        sent(topic, '{"paymentId":"a"}', JSON, **headers)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("body", "media"),
    [("{}\n", LINES), (" \n \n{}\n", LINES), ("{},", BATCH), ("{},", JSON)],
    ids=["lines", "lines between empty ones", "a batch", "an array"],
)
def test_too_many_records_are_refused_before_they_are_made(
    body: str, media: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 MB hold millions of them: making them takes a gigabyte, and no other request is answered meanwhile."""
    topic = EVENTS if media == BATCH else PLAIN
    made: list[str] = []
    real = _bodies._next

    def counted(text: str, *more: int) -> Any:
        made.append(text)
        return real(text, *more)

    monkeypatch.setattr(_bodies, "_next", counted)

    def prepared(count: int) -> int:
        text = body * count
        whole = text if media == LINES else f"[{text[:-1]}]"
        return len(prepare(topic, {"content-type": media}, whole.encode(), NOW, most=100))

    assert prepared(100) == 100
    made.clear()
    with pytest.raises(Unreadable, match="101 records are more than the 100") as refused:
        prepared(100_000)
    assert refused.value.status == 413
    assert len(made) <= 100
