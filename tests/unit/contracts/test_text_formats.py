"""UUIDs and times of day: the same to the declaration, the sender's check, HTTP's door and the reasons."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from anabranch.contracts import Contract, PlainJson, Record, TimeField, Topic
from anabranch.contracts.model.compatibility import check_versions
from anabranch.contracts.model.contract_registry import check_registered, fingerprint, register
from anabranch.contracts.model.infer import infer
from anabranch.contracts.sending import EventValidator, RecordCheck
from anabranch.core.errors import BadDefinition, BadInput, Conflict
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from anabranch.ingest.landing.decoding._quarantine_reasons import UNREADABLE, reason
from anabranch.testing._values import pool_key, values
from hypothesis import find, given
from hypothesis import strategies as st
from support.text_formats import NO_TIMES, NO_UUIDS, TIMES, UUIDS, is_time_of_day, is_uuid

pytestmark = pytest.mark.unit
UUID, TIME, TEXT = ({"type": "string", **more} for more in ({"format": "uuid"}, {"format": "time"}, {}))
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def contract(version: int = 1, **fields: Any) -> Contract:
    return Contract("parcel.seen", version, {"type": "object", "properties": fields})


SEEN = contract(id=UUID, opens=TIME)
TOPIC = Topic("parcels", (SEEN,), records=PlainJson(id="id", time=Record.APPEND_TIME))


def refused_by_sender(validator: EventValidator, declared: Contract, data: Any) -> str | None:
    event: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": declared.name, "subject": "k"}
    try:
        validator.check({**event, "time": "2013-01-01T00:00:00Z", "dataschema": declared.uri, "data": data})
    except BadInput as error:
        return error.what
    return None


@pytest.mark.parametrize(
    ("field", "value", "fits"),
    [
        *(("id", text, True) for text in UUIDS),
        *(("id", text, False) for text in NO_UUIDS),
        *(("opens", text, True) for text in TIMES),
        *(("opens", text, False) for text in NO_TIMES),
    ],
)
def test_sender_door_and_reason_agree_about_a_text(field: str, value: Any, fits: bool) -> None:
    data = {"id": UUIDS[0], field: value}
    kind, validator = {"id": "uuid", "opens": "time"}[field], EventValidator([SEEN])
    reasons = list(contract_problems(SEEN, data))
    said = refused_by_sender(validator, SEEN, data)
    door = RecordCheck(TOPIC).problem(json.dumps(data).encode(), data)
    if fits:
        assert (reasons, said, door) == ([], None, None)
        return
    assert reasons == [f"contract: data.{field} is no {kind}"]
    assert said is not None
    assert f"data.{field}: " in said
    assert door is not None
    assert door[0] == field
    if isinstance(value, str):
        assert door[1].endswith(f'is not a "{kind}"')


@given(st.text("0123456789abcdefABCDEF-{}: ", max_size=40) | st.uuids().map(str) | st.times().map(str))
def test_any_text_is_judged_as_a_naive_reader_does(text: str) -> None:
    for field, judged in (("id", is_uuid(text)), ("opens", is_time_of_day(text))):
        assert (not list(contract_problems(SEEN, {field: text}))) is judged, text
        assert (refused_by_sender(VALIDATOR, SEEN, {field: text}) is None) is judged, text


VALIDATOR = EventValidator([SEEN])


def test_inside_of_arrays_and_maps_they_are_checked_too() -> None:
    declared = contract(
        ids={"type": "array", "items": UUID},
        hours={"type": "object", "additionalProperties": {**TIME, "type": ["string", "null"]}},
    )
    good = {"ids": [UUIDS[0]], "hours": {"mon": "09:00:00", "sun": None}}
    bad = {"ids": [UUIDS[0], "x"], "hours": {"mon": "9:00"}}
    assert list(contract_problems(declared, good)) == []
    assert list(contract_problems(declared, bad)) == [
        "contract: data.ids holds what is no string (data.ids[1] is no uuid)",
        "contract: data.hours['mon'] is no time",
    ]
    validator = EventValidator([declared])
    assert refused_by_sender(validator, declared, good) is None
    assert refused_by_sender(validator, declared, {"ids": bad["ids"]}) is not None
    assert refused_by_sender(validator, declared, {"hours": bad["hours"]}) is not None


def test_a_uuid_may_be_the_id_and_the_subject() -> None:
    mapping = PlainJson(id="id", time=Record.APPEND_TIME, subject="id")
    topic = Topic("parcels", (SEEN,), records=mapping)
    assert reason(topic, json.dumps({"id": UUIDS[0]}).encode(), NOON) == UNREADABLE, "nothing is wrong with it"
    assert reason(topic, b'{"id": "x"}', NOON) == "contract: data.id is no uuid"


def test_a_time_of_day_is_no_event_time() -> None:
    for time in ("opens", TimeField("opens", unit="s"), TimeField("opens", format="HH:mm:ss")):
        with pytest.raises(BadDefinition, match="time: opens "):
            Topic("parcels", (SEEN,), records=PlainJson(id="id", time=time))


def test_they_are_rules_like_a_pattern_and_not_types() -> None:
    """A next version may drop one and is backward compatible, may add one only if it is declared otherwise."""
    plain, strict = contract(1, id=TEXT), contract(2, id=UUID)
    with pytest.raises(BadDefinition, match=r"data\.id has the format uuid in one version only"):
        check_versions([plain, strict])
    check_versions([contract(1, id=UUID), contract(2, id=TEXT)])
    check_versions([plain, Contract(strict.name, 2, strict.schema, strict.compatibility.NONE)])
    other = contract(2, id=TIME)
    with pytest.raises(BadDefinition, match="has the format time"):
        check_versions([contract(1, id=UUID), other])


def test_what_has_landed_may_be_allowed_more_and_not_less(tmp_path: Any) -> None:
    settings: Settings = load_settings(home=tmp_path / "home")
    register(settings, Topic("parcels", (contract(id=UUID),)))
    mended = contract(id=TEXT)
    register(settings, Topic("parcels", (mended,)))
    with pytest.raises(Conflict, match="has the format uuid"):
        check_registered(settings, Topic("parcels", (contract(id=UUID),)))


def test_the_fingerprint_of_what_was_declared_before_is_the_same() -> None:
    before = contract(at={"type": "string", "format": "date-time"}, n={"type": "integer"}, s=TEXT)
    assert fingerprint(before) == "31fd6357bd37eeda"


def test_a_sample_of_them_is_declared_as_such() -> None:
    rows = [{"parcel": text, "opens": "09:00:00", "note": "09:00"} for text in UUIDS]
    found = infer("parcel.seen", map(json.dumps, rows))
    assert found.schema["properties"] == {"parcel": UUID, "opens": TIME, "note": TEXT}
    assert (found.id, found.ids) == ("parcel", ["parcel", "opens", "note"])
    mixed = infer("parcel.seen", map(json.dumps, [*rows, {**rows[0], "parcel": "p-7"}]))
    assert mixed.schema["properties"]["parcel"] == TEXT


def test_the_generator_of_data_draws_them() -> None:
    for node, judge in ((UUID, is_uuid), (TIME, is_time_of_day)):
        assert judge(find(values(node), lambda _: True))
        find(values(node), lambda text: text != text.lower() or text.endswith("Z"))
        assert pool_key("a", node) != pool_key("a", TEXT)
    fourth = {**UUID, "pattern": "^.{14}4"}
    assert is_uuid(find(values(fourth, ("x", UUIDS[0])), lambda text: text[14] == "4"))
