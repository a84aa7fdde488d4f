"""Contracts inferred from samples hold the samples, and say what they aren't sure of."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli.main import app
from anabranch.contracts import Contract, PlainJson, Record, TimeField, Topic, load_declarations
from anabranch.contracts.model.contract import sent_name
from anabranch.contracts.model.infer import infer
from anabranch.contracts.model.inferred import Inferred
from anabranch.contracts.sending import RecordCheck
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import project_root
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
PAYMENTS = [
    {
        "paymentId": f"p-{n}",
        "createdAt": 1_709_251_200_000 + n,
        "cents": n,
        "shop": {"city": "Rome", "since": "2001-02-03"},
        "tags": ["a"],
        "note": None if n else "x",
        "rate": n if n % 2 else 0.5,
        "mixed": n if n % 2 else "x",
        "device-id": 3,
        "source": "web",
        "\u00b0": 1,
        "paid_at": "2024-03-01T10:00:00Z",
    }
    for n in range(10)
]


def inferred(records: list[Any]) -> Inferred:
    return infer("payment.made", [json.dumps(record) for record in records])


def test_types_and_what_is_required() -> None:
    found = inferred(PAYMENTS)
    assert found.schema == {
        "type": "object",
        "required": ["paymentId", "createdAt", "cents", "shop", "tags", "rate", "device_id", "source_sent", "paid_at"],
        "properties": {
            "paymentId": {"type": "string"},
            "createdAt": {"type": "integer"},
            "cents": {"type": "integer"},
            "shop": {
                "type": "object",
                "required": ["city", "since"],
                "properties": {"city": {"type": "string"}, "since": {"type": "string", "format": "date"}},
            },
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"type": "string", "description": "null in 9 of 10 records of the sample"},
            "rate": {"type": "number"},
            "device_id": {"type": "integer", "sent_as": "device-id"},
            "source_sent": {"type": "string", "sent_as": "source"},
            "paid_at": {"type": "string", "format": "date-time"},
        },
    }
    assert found.left_out == (
        "mixed: left out, the sample has integer and string",
        "\u00b0: left out, no column can be named for it",
    )
    assert (found.id, found.time) == ("paymentId", 'TimeField("createdAt", unit="ms")')


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([1709251200, 1709251201], "s"),
        ([1709251200.123, 1709251201], "s"),
        (["1709251200", "1709251201.5"], "s"),
        (["1709251200123", "1709251201123"], "ms"),
        (["1709251200123", "noon"], None),
        ([12.5, 1709251200.5], None),
        ([1e300, 1709251200.5], None),
        ([True, False], None),
    ],
)
def test_a_count_of_units_since_1970_may_be_the_event_time(values: list[Any], unit: str | None) -> None:
    found = inferred([{"n": n, "ts": value} for n, value in enumerate(values)])
    assert found.time == (unit and f'TimeField("ts", unit="{unit}")')
    assert found.id == "n"


def test_an_id_may_come_twice_in_a_log() -> None:
    assert inferred([*PAYMENTS, PAYMENTS[0]]).id == "paymentId"
    assert inferred([*PAYMENTS, *PAYMENTS]).id is None
    assert inferred([{"word": "a"}, {"word": "a"}, {"word": "b"}]).id is None


def test_records_of_a_log_may_be_broken() -> None:
    lines = ["{", "[]", *map(json.dumps, PAYMENTS)]
    found = infer("payment.made", lines, broken=True)
    assert (found.id, found.left_out[0]) == ("paymentId", "2 of 12 records are no JSON object: left out")


def test_both_files_can_be_loaded(tmp_path: Path) -> None:
    found = inferred(PAYMENTS)
    (tmp_path / "payment.made.v1.json").write_text(found.contract_file())
    (tmp_path / "payments.py").write_text(found.declaration("payments"))
    topic = load_declarations(tmp_path).topic("payments")
    assert topic.records == PlainJson(id="paymentId", time=TimeField("createdAt", unit="ms"))
    assert not topic.owned
    assert "# mixed: left out" in (tmp_path / "payments.py").read_text()


def test_without_candidates_the_record_itself_says_id_and_time(tmp_path: Path) -> None:
    found = inferred([{"n": 1}, {"n": 1}])
    (tmp_path / "payment.made.v1.json").write_text(found.contract_file())
    (tmp_path / "payments.py").write_text(found.declaration("payments"))
    records = load_declarations(tmp_path).topic("payments").records
    assert records == PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)


NAMES = st.text(max_size=3) | st.sampled_from(["a", "b", "A", "id", "at"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from([
    "2020-01-01T00:00:00Z", "2020-02-30T00:00:00Z", "2020-01-01T00:00:00.123456789+14:00", "2016-12-31T23:59:60Z",
    "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2020-01-01", "0000-01-01", "2020-W01-1", "20200101",
    "1.00", "12:00:00", "24:00:00", "123e4567-e89b-12d3-a456-426614174000", "AA==",
])  # fmt: skip
VALUES = st.recursive(
    SCALARS | st.text() | TEXTS,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(NAMES, child, max_size=3),
    max_leaves=8,
)


@example([{"at": "0001-01-01T00:00:00+01:00"}])
@example([{"a": "12345678901234567.00", "b": 1.25}, {"a": "1.00", "b": 12345678901234567}])
@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=4))
def test_of_any_sample_a_contract_is_made_that_can_be_declared_and_takes_the_sample(
    sample: list[dict[str, Any]],
) -> None:
    sample = [{**each, "always": 1} for each in sample]
    found = inferred(sample)
    for proposed in (found, found.with_decimals(found.money)):
        content = json.loads(proposed.contract_file())
        contract = Contract(content["name"], content["version"], content["schema"])
        for record in sample:
            required = {sent_name(name, contract.fields[name]) for name in contract.required}
            assert required <= {name for name, value in record.items() if value is not None}
        check = RecordCheck(Topic("t", (contract,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)))
        assert [check.problem(json.dumps(each).encode(), each) for each in sample] == [None] * len(sample)


HOSTILE = "x\nraise SystemExit(3)\n"


@pytest.mark.parametrize(
    "sample",
    [
        {HOSTILE: 1, "n": 1},
        {"a": {HOSTILE: [1, "x"], "n": 1}},
        {"a\r\nraise SystemExit(3)": 1, "n": 1},
        {"a\x0craise SystemExit(3)": 1, "n": 1},
    ],
)
def test_names_in_records_are_no_code_of_the_declaration(sample: dict[str, Any], tmp_path: Path) -> None:
    """It is loaded by every process of the project, and anyone who may write into the topic chooses the names."""
    found = replace(inferred([sample]), origin='a"""\nraise SystemExit(3)\n"""\\')
    (tmp_path / "payment.made.v1.json").write_text(found.contract_file())
    (tmp_path / "payments.py").write_text(found.declaration("payments"))
    assert load_declarations(tmp_path).topic("payments")
    module = ast.parse(found.declaration("payments"))
    assert [type(each) for each in module.body] == [ast.Expr, ast.ImportFrom, ast.ImportFrom, ast.Assign]


EMPTY: Any = {}


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (EMPTY, "extra: left out, it has no fields"),
        ({"": 1}, "extra: left out, it has no fields"),
        ({"deeper": EMPTY}, "extra: left out, it has no fields"),
        ([EMPTY], "extra: left out, its items have no fields"),
        ({str(n): EMPTY for n in range(30)}, "extra: left out, it has no fields"),
    ],
)
def test_an_object_without_fields_is_left_out(field: Any, why: str) -> None:
    """Parquet can't hold one, and landing of the topic would end at the first record."""
    found = inferred([{"n": 1, "extra": field}])
    assert list(found.fields) == ["n"]
    assert why in found.left_out
    with pytest.raises(BadInput, match=r"the sample has no field that a column can hold: extra.*: left out"):
        inferred([{"extra": field}])


def test_names_that_no_file_can_hold_are_left_out() -> None:
    found = infer("payment.made", [r'{"a\ud800": 1, "b": 2}'])
    assert "left out" in found.left_out[0]
    assert list(found.fields) == ["b"]
    found.contract_file().encode()
    found.declaration("payments").encode()


@pytest.mark.parametrize(
    ("lines", "says"),
    [([], "no record"), (["{}", "{"], "line 2 is not JSON"), (["[1]"], "line 1 is no JSON object"),
     (['{"a": NaN}'], "line 1 is not JSON: NaN"), (["[" * 100_000], "line 1 is not JSON")],
)  # fmt: skip
def test_a_sample_that_cannot_be_read_is_named_by_its_line(lines: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says) as error:
        infer("payment.made", lines)
    assert error.value.code == "SAMPLE"


def test_the_command_prints_or_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = tmp_path / "sample.jsonl"
    sample.write_text("\n".join(map(json.dumps, PAYMENTS)))
    command = ["contracts", "infer", str(sample), "--type", "payment.made", "--topic", "payments"]
    shown = CliRunner().invoke(app, command)
    assert (shown.exit_code, shown.stdout.count("PlainJson(")) == (0, 1), shown.output
    project = tmp_path / "project"
    (project / "spark_jobs" / "contracts").mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.anabranch]\n")
    monkeypatch.setenv("ANABRANCH_PROJECT", str(project))
    written = CliRunner().invoke(app, [*command, "--write"])
    assert written.exit_code == 0, written.output
    assert load_declarations(project / "spark_jobs" / "contracts").topic("payments").contracts[0].name == "payment.made"
    again = CliRunner().invoke(app, [*command, "--write"])
    assert (again.exit_code, "FILE_EXISTS" in again.stderr) == (1, True)


def test_the_guide_infers_its_own_contract(tmp_path: Path) -> None:
    guide = (project_root() / "docs" / "your-own-data.md").read_text()
    assert "anabranch contracts infer sample.jsonl --type payment.made --topic payments --write" in guide


def test_a_topic_of_kafka_gets_a_name_of_ours(tmp_path: Path) -> None:
    sample = tmp_path / "sample.jsonl"
    sample.write_text("\n".join(json.dumps(record) for record in PAYMENTS))
    command = ["contracts", "infer", str(sample), "--type", "payment.made", "--topic", "prod.payments-v2", "--json"]
    told = json.loads(CliRunner().invoke(app, command).output)
    (tmp_path / "payment.made.v1.json").write_text(json.dumps(told["contract"]))
    (tmp_path / "prod_payments_v2.py").write_text(told["declaration"])
    topic = load_declarations(tmp_path).topic("prod_payments_v2")
    assert topic.in_kafka == "prod.payments-v2"
    assert "# its name here" in told["declaration"]
