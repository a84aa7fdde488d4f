"""The sample's contracts and topics, and what a contract or topic may not be."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Contract, Topic, load_declarations
from anabranch.contracts.model.contract import Compatibility
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.topics import LANDING_COLUMNS
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.core.project_folder import project_root
from anabranch.ingest.landing.table.schema import EVENT_DATE, FIXED

pytestmark = pytest.mark.unit

CONTRACTS = project_root() / "spark_jobs" / "contracts"
SIMPLE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(scope="module")
def declared() -> Declarations:
    return load_declarations(CONTRACTS)


def test_the_sample_declares_two_topics(declared: Declarations) -> None:
    flights, weather = declared.topic("flights"), declared.topic("weather")
    assert (flights.partitions, weather.partitions) == (4, 1)
    assert flights.allowed_lateness == timedelta(hours=2)
    assert flights.event_types == ("flight.scheduled", "flight.departed", "flight.arrived", "flight.cancelled")
    assert flights.broker_config["message.timestamp.type"] == "LogAppendTime"
    assert flights.broker_config["retention.ms"] == str(30 * 86_400_000)
    assert declared.topic_of("weather.observed") is weather


def test_every_contract_file_is_declared_and_named_after_its_content(declared: Declarations) -> None:
    names = {f"{c.name}.v{c.version}.json" for topic in declared.topics.values() for c in topic.contracts}
    assert names == {path.name for path in CONTRACTS.glob("*.json")}


def test_only_the_tail_number_and_air_time_of_a_flight_are_optional(declared: Declarations) -> None:
    optional = {c.name: set(c.fields) - c.required for c in declared.topic("flights").contracts}
    assert optional == {
        "flight.scheduled": {"tailnum"},
        "flight.departed": {"tailnum"},
        "flight.arrived": {"tailnum", "air_time"},
        "flight.cancelled": {"tailnum"},
    }


def test_files_are_read_once_or_anew_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "parcels.py"

    def write(partitions: str) -> None:
        file.write_text(
            "from anabranch.contracts import Contract, Topic\n"
            f"PARCEL = Contract('parcel.seen', 1, {SIMPLE!r})\n"
            f"PARCELS = Topic('parcels', (PARCEL,), partitions={partitions})\n"
        )

    def partitions(*, reload: bool = False) -> int:
        return load_declarations(tmp_path, reload=reload).topic("parcels").partitions

    write("2")
    assert partitions() == 2
    write("16")
    assert (partitions(), partitions(reload=True), partitions()) == (2, 16, 16)
    write("oh no")
    with pytest.raises(SyntaxError):
        partitions(reload=True)
    assert partitions() == 16


@pytest.mark.parametrize(
    ("name", "version", "schema", "code"),
    [
        ("Flight", 1, SIMPLE, "CONTRACT_NAME"),
        ("flight.x; drop", 1, SIMPLE, "CONTRACT_NAME"),
        ("flight.departed", 0, SIMPLE, "CONTRACT_VERSION"),
        ("flight.departed", 2**31, SIMPLE, "CONTRACT_VERSION"),
        ("flight.departed", 1, {"type": "string"}, "CONTRACT_SCHEMA"),
        ("flight.departed", 1, {"type": "object", "oneOf": []}, "CONTRACT_SCHEMA"),
        ("flight.departed", 1, {"type": "object", "properties": {"A b": {"type": "string"}}}, "CONTRACT_SCHEMA"),
        ("flight.departed", 1, {"type": "object", "required": ["ghost"]}, "CONTRACT_SCHEMA"),
        ("flight.departed", 1, {"type": "object", "properties": {"a": {"type": "array"}}}, "CONTRACT_SCHEMA"),
        ("flight.departed", 1, {"type": "object", "properties": {"a": {"type": ["string"]}}}, "CONTRACT_SCHEMA"),
    ],
)
def test_a_contract_that_cannot_be_typed_is_refused(name: str, version: int, schema: dict[str, Any], code: str) -> None:
    with pytest.raises(BadDefinition) as caught:
        Contract(name, version, schema)
    assert caught.value.code == code


@pytest.mark.parametrize("rule", ["foo", "BACKWARD", None, 5, ["full"]])
def test_a_rule_that_is_none_is_refused(rule: Any) -> None:
    with pytest.raises(BadDefinition) as caught:
        Contract("a.b", 1, SIMPLE, rule)
    assert (caught.value.code, caught.value.what) == ("CONTRACT_VERSION", f"a.b v1: compatibility {rule!r} is no rule")
    assert caught.value.next_step == "give one of backward, forward, full, none"


def test_a_rule_may_be_given_by_its_name_and_a_version_may_have_31_bits() -> None:
    rule: Any = "full"
    assert Contract("a.b", 2**31 - 1, SIMPLE, rule) == Contract("a.b", 2**31 - 1, SIMPLE, Compatibility.FULL)


def test_a_contract_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "a.b.v3.json"
    file.write_text(json.dumps({"name": "a.b", "version": 3, "compatibility": "full", "schema": SIMPLE}))
    contract = Contract.from_file(file)
    assert (contract.uri, contract.column) == ("urn:anabranch:contract:a.b:3", "a_b")
    assert contract.compatibility is Compatibility.FULL


def test_the_columns_of_landing_are_known_to_topics() -> None:
    assert {*FIXED.names, EVENT_DATE} == LANDING_COLUMNS


@pytest.mark.parametrize("name", sorted(name for name in LANDING_COLUMNS if "_" in name))
def test_an_event_type_cannot_have_the_column_of_another_part_of_a_record(name: str) -> None:
    event_type = name.replace("_", ".", 1)
    with pytest.raises(BadDefinition) as caught:
        Topic("things", (Contract(event_type, 1, SIMPLE),))
    assert caught.value.code == "TOPIC_CONTRACTS"
    assert caught.value.what == f"things: the column of {event_type} would be {name}, which is landing's own"
    assert caught.value.next_step


def test_two_event_types_of_a_topic_cannot_have_one_column() -> None:
    with pytest.raises(BadDefinition) as caught:
        Topic("things", tuple(Contract(name, 1, SIMPLE) for name in ("a.b_c", "a.d", "a_b.c")))
    assert caught.value.code == "TOPIC_CONTRACTS"
    assert caught.value.what == "things: a.b_c and a_b.c would share the column a_b_c"


def test_versions_of_an_event_type_share_its_column() -> None:
    Topic("things", tuple(Contract("a.b_c", version, SIMPLE) for version in (1, 2)))


def test_an_event_type_belongs_to_one_topic(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(
        "from anabranch.contracts import Contract, Topic\n"
        f"C = Contract('a.b', 1, {SIMPLE!r})\n"
        "ONE = Topic('one', (C,))\nTWO = Topic('two', (C,))\n"
    )
    with pytest.raises(BadDefinition) as caught:
        load_declarations(tmp_path)
    assert caught.value.code == "EVENT_TYPE_TWICE"


def test_an_unknown_topic_or_type_names_the_known_ones(declared: Declarations) -> None:
    with pytest.raises(BadInput) as caught:
        declared.topic("fligths")
    assert caught.value.code == "TOPIC_UNKNOWN"
    assert "flights" in caught.value.next_step
    with pytest.raises(BadInput) as caught:
        declared.topic_of("flight.teleported")
    assert caught.value.code == "EVENT_TYPE_UNKNOWN"
