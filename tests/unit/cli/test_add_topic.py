"""`anabranch topics add` asks, proposes, and writes a declaration that can be loaded."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from anabranch.apps.cli.main import app
from anabranch.contracts import Avro, PlainJson, TimeField, load_declarations
from anabranch.core.errors import TryAgain
from anabranch.ingest.kafka import admin
from support.avro_records import ORDER_SCHEMA, text
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
SAMPLE = """{"orderId": "o-1", "ts": 1704103200000, "customer": "ann", "cents": 5}
{"orderId": "o-2", "ts": 1704106800000, "customer": "bob", "cents": 7}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without topics, and a broker that has none."""
    (tmp_path / "pyproject.toml").write_text("[tool.anabranch]\n")
    (tmp_path / "spark_jobs" / "contracts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(admin, "existing_topics", lambda _: {"_other": 1})
    return tmp_path


def add(sample: Path, answers: str, *more: str) -> tuple[int, str]:
    command = ["topics", "add", "orders", "--sample", str(sample), "--type", "order.placed", *more]
    found = CliRunner().invoke(app, command, input=answers)
    return found.exit_code, found.output


def test_enter_takes_what_is_proposed(project: Path) -> None:
    sample = project / "sample.jsonl"
    sample.write_text(SAMPLE)
    code, told = add(sample, "\n\n\n\n\n")
    assert code == 0, told
    topic = load_declarations(project / "spark_jobs" / "contracts").topic("orders")
    assert topic.records == PlainJson(id="orderId", time=TimeField("ts", unit="ms"))
    assert (topic.owned, topic.allowed_lateness) == (True, timedelta(hours=1))
    assert "next: anabranch topics try orders FILE" in told


def test_answers_are_taken_and_asked_for_again_if_they_are_none(project: Path) -> None:
    schema = project / "order.avsc"
    schema.write_text(text(ORDER_SCHEMA))
    code, told = add(schema, "nothing\norderId\nplacedAt\ncustomer\n90\ny\n")
    assert code == 0, told
    assert "'nothing' is none of the choices" in told
    topic = load_declarations(project / "spark_jobs" / "contracts").topic("orders")
    assert isinstance(topic.records, Avro)
    assert (topic.records.id, topic.records.time, topic.records.subject) == ("orderId", "placedAt", "customer")
    assert (topic.owned, topic.allowed_lateness) == (False, timedelta(minutes=90))
    assert (project / "spark_jobs" / "contracts" / "order.placed.avsc").exists()


def test_no_answer_writes_a_declaration_that_can_not_be_loaded(project: Path) -> None:
    """One that can't stops landing, the streams and every command from their next start on."""
    sample = project / "sample.jsonl"
    sample.write_text(SAMPLE)
    code, told = add(sample, "\n\n\n-5\nsoon\n99999999999999\n0\n\n")
    assert (code, told.count("write a number from 0 to")) == (0, 3), told
    assert load_declarations(project / "spark_jobs" / "contracts").topic("orders").allowed_lateness == timedelta(0)


@pytest.mark.parametrize(
    ("topic", "kind", "code"),
    [("orders", "order.returned", "TOPIC_DECLARED"), ("returns", "order.placed", "EVENT_TYPE_TWICE")],
)
def test_a_declaration_that_clashes_with_another_file_is_not_written(
    project: Path, topic: str, kind: str, code: str
) -> None:
    sample, folder = project / "sample.jsonl", project / "spark_jobs" / "contracts"
    sample.write_text(SAMPLE)
    assert add(sample, "\n\n\n\n\n")[0] == 0
    (folder / "orders.py").rename(folder / "shop.py")
    command = ["contracts", "infer", str(sample), "--type", kind, "--topic", topic, "--write"]
    (folder / "order.placed.v1.json").rename(folder / "placed.json")
    (folder / "shop.py").write_text((folder / "shop.py").read_text().replace("order.placed.v1.json", "placed.json"))
    before = sorted(folder.iterdir())
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, f"[{code}]" in refused.stderr) == (1, True), refused.output
    assert "nothing was written" in refused.stderr
    tried = Path(tempfile.gettempdir()) / "tmp"
    assert str(tried) not in refused.stderr, "it names the project's folder"
    assert sorted(folder.iterdir()) == before


def test_a_sample_needs_no_broker(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_: object) -> None:
        raise TryAgain("BROKER_UNREACHABLE", "no broker answers")

    monkeypatch.setattr(admin, "existing_topics", unreachable)
    sample = project / "sample.jsonl"
    sample.write_text(SAMPLE)
    code, told = add(sample, "\n\n\n\n\n")
    assert code == 0, told


def test_a_topic_that_nobody_has_needs_a_sample(project: Path) -> None:
    found = CliRunner().invoke(app, ["topics", "add", "orders"])
    assert found.exit_code == 1
    assert "no records to learn from" in found.output


@pytest.mark.parametrize(
    ("data", "step"),
    [("topic", "anabranch topics add TOPIC"), ("file", "anabranch load TOPIC FILE"), ("http", "anabranch http allow")],
)
def test_a_new_project_shows_the_steps_for_what_one_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str, step: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["init", "shop", "--data", data])
    assert found.exit_code == 0
    assert step in found.output
    assert CliRunner().invoke(app, ["init", "other", "--data", "all"]).exit_code == 1


@pytest.mark.parametrize("made", ["a file", "a link to nothing", "a folder with a file"])
def test_init_leaves_alone_what_has_the_project_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "shop"
    if made == "a file":
        place.write_text("mine")
    elif made == "a link to nothing":
        place.symlink_to(tmp_path / "nowhere")
    else:
        place.mkdir()
        (place / "mine").touch()
    refused = CliRunner().invoke(app, ["init", "shop"])
    assert (refused.exit_code, "[FOLDER_NOT_EMPTY]" in refused.stderr) == (1, True), refused.output
    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_only_kafka_allows_is_asked_for(project: Path) -> None:
    sample, folder = project / "sample.jsonl", project / "spark_jobs" / "contracts"
    sample.write_text(SAMPLE)
    command = ["topics", "add", "prod.orders-v2", "--sample", str(sample), "--type", "order.placed"]
    found = CliRunner().invoke(app, command, input="Orders\n\n\n\n\n\n\n")
    assert found.exit_code == 0, found.output
    assert "can't have the name prod.orders-v2. What is it called here? [prod_orders_v2]" in found.output
    assert "use a-z, 0-9 and _, a letter first" in found.output
    topic = load_declarations(folder).topic("prod_orders_v2")
    assert topic.in_kafka == "prod.orders-v2"
    assert "next: anabranch topics try prod_orders_v2 FILE" in found.output
    for again in ("prod.orders-v2", "prod_orders_v2"):
        refused = CliRunner().invoke(app, ["topics", "add", again, "--sample", str(sample)])
        assert "TOPIC_DECLARED" in refused.output
        assert "prod_orders_v2 (prod.orders-v2 in Kafka) is declared already" in refused.output
    for wrong in ("a b", "..", "x" * 250):
        assert "TOPIC_NAME" in CliRunner().invoke(app, ["topics", "add", wrong, "--sample", str(sample)]).output
