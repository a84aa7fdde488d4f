"""Texts from outside in every place that they reach and no other test tries: terminals, addresses, paths, jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from anabranch.apps.airflow.client import Client
from anabranch.apps.cli import _events_commands, _replay_commands
from anabranch.apps.cli._census_commands import census_table
from anabranch.apps.cli.main import app
from anabranch.certify.differences import Cell, Difference
from anabranch.certify.rendering import render_differences, shown_value
from anabranch.change.replay.state import ReplayState, read_state, write_state
from anabranch.change.run_names import run_key
from anabranch.compute.batch.manifest import manifest_path
from anabranch.core.errors import EXIT_NEEDS_FIX, AnabranchError, BadInput
from anabranch.core.settings import Settings
from anabranch.core.text.terminal_text import cell, printable
from anabranch.ingest.kafka import look
from anabranch.ingest.landing.audit.quarantine import Quarantined, QuarantinedKind
from anabranch.ingest.landing.audit.report import kinds_table, quarantine_table
from anabranch.ingest.landing.table.contract_usage import Producer, VersionUsage
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.explain._missing_row import shown
from anabranch.serve.routes import set_route
from rich.console import Console, RenderableType
from support import small_halves
from support.hostile_texts import CANARY, HOSTILE
from support.landed_sample import sample_views
from typer.testing import CliRunner

pytestmark = pytest.mark.unit

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m\r\x08\u202egnp.exe\x00[bold]x[/bold][/nothing]"
"""What would rename a window, clear a screen, hide a line, turn a name round, or end in an error of Rich's markup."""
OBEYED = ("\x1b", "\x07", "\x9b", "\r", "\x08", "\u202e", "\x00")


def in_terminal(shown: RenderableType) -> str:
    file = StringIO()
    Console(file=file, width=400, force_terminal=False).print(shown)
    return file.getvalue()


RECORD = Quarantined("flights", 0, 1, NOON, 1, f"{ESCAPES}: because", ESCAPES, b"k", b"v")


def seen() -> RenderableType:
    return census_table([VersionUsage("flights", ESCAPES, 1, True, True, 1, 0, NOON, NOON, 1, (Producer(ESCAPES, 1),))])


def differences() -> str:
    view = sample_views().get("departure_delays")
    cells = (Cell("flights", ESCAPES, 1), Cell("delayed", 1, ESCAPES))
    return render_differences(view, date(2013, 1, 1), [Difference(dict.fromkeys(view.key, ESCAPES), "changed", cells)])


SHOWN: dict[str, Callable[[], str]] = {
    "quarantine list": lambda: in_terminal(kinds_table("flights", [QuarantinedKind(1, 1, RECORD)])),
    "quarantine list --kind": lambda: in_terminal(quarantine_table("flights", [RECORD], 5)),
    "census": lambda: in_terminal(seen()),
    "differences": differences,
    "a cell": lambda: in_terminal(cell(ESCAPES)),
    "a value": lambda: shown_value(ESCAPES),
    "a key": lambda: shown({"origin": ESCAPES}),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_terminal_shows_what_it_would_obey_else(name: str) -> None:
    text = SHOWN[name]()
    assert "owned" in text, "nothing of it is shown: this test says nothing"
    assert [sign for sign in OBEYED if sign in text] == []
    assert "\\x1b]0;owned" in text.replace("\n", "")
    assert "[bold]x[/bold]" in text.replace("\n", "")


def test_a_landed_record_in_a_terminal(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id, type and subject are whatever a producer wrote; brackets would be taken for markup."""
    landed = {"epoch": 1, "event_id": ESCAPES, "type": "[/owned]", "reason": None}
    monkeypatch.setattr(_events_commands, "_landed", lambda *_: landed)
    monkeypatch.setattr(look, "at", lambda *_: None)
    told = CliRunner().invoke(app, ["events", "show", "flights", "0:1"], env={"COLUMNS": "400"})
    assert told.exit_code == 0, told.output
    assert ("[/owned]" in told.stdout, "[bold]x[/bold]" in told.stdout) == (True, True)
    assert [sign for sign in OBEYED if sign in told.output] == []


def test_a_replay_s_last_words_in_a_terminal(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    state = ReplayState(small_halves.VIEW, 1, "run", said=ESCAPES)
    monkeypatch.setattr(_replay_commands, "_version", lambda *_: VersionRef(settings, small_halves.VIEW, 1))
    write_state(settings, state)
    told = CliRunner().invoke(app, ["replay", "status", small_halves.VIEW])
    assert (told.exit_code, "owned" in told.stdout) == (0, True), told.output
    assert [sign for sign in OBEYED if sign in told.output] == []


def test_plain_text_stays_as_it_is() -> None:
    for text in ("", "JFK", "Zürich 東京 \U0001f6eb\ttab\nline", "[x]"):
        assert printable(text) == text


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    return Settings(home=tmp_path / "home")


def test_rows_and_routes_in_a_terminal(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = small_halves.rows_at

    def hostile_rows(epoch: int, days: Any) -> pa.Table:
        made = rows(epoch, days)
        return made.set_column(1, "origin", pa.array([ESCAPES] * made.num_rows))

    monkeypatch.setattr(small_halves, "rows_at", hostile_rows)
    small_halves.start_speed(settings, 3)
    set_route(settings, small_halves.VIEW, {1: 100}, by=ESCAPES, why=ESCAPES)
    for words in (
        ["read", small_halves.VIEW, "--limit", "2"],
        ["routes", "history", small_halves.VIEW],
        ["routes", "show", small_halves.VIEW],
    ):
        told = CliRunner().invoke(app, words, env={"COLUMNS": "400"})
        assert told.exit_code == 0, told.output
        assert "owned" in told.stdout
        assert [sign for sign in OBEYED if sign in told.output] == []
    as_json = json.loads(CliRunner().invoke(app, ["read", small_halves.VIEW, "--json", "--limit", "1"]).stdout)
    assert as_json["rows"][0]["origin"] == ESCAPES, "what a program reads is the value itself"


@pytest.mark.parametrize("text", [*HOSTILE, "../../../api/v2/variables", "a/b?x=1#y", "%2e%2e/%2e%2e", "..", "."])
def test_no_name_leads_a_call_of_airflow_elsewhere(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(201 if b"token" in request.url.raw_path else 404, json={"access_token": "t"})

    client = Client("http://airflow.test", ("admin", "x"))
    monkeypatch.setattr(client, "_http", httpx.Client(base_url=client.address, transport=httpx.MockTransport(answer)))
    calls: list[Callable[[], object]] = [
        lambda: client.trigger(text, {}, patience=0),
        lambda: client.run(text, text),
        lambda: client.hitl_detail(text, text, text),
        lambda: client.write_note(text, text, "note"),
    ]
    for call in calls:
        with pytest.raises(AnabranchError):
            call()
    paths = [path.decode() for path in asked if b"token" not in path and path != b"/api/v2/importErrors"]
    assert paths
    for path in paths:
        plain = path.partition("?")[0]
        assert plain.startswith("/api/v2/dags/")
        assert ".." not in plain.split("/")
        assert plain.count("/") <= 10
        assert path.count("?") == plain.count("?") + ("update_mask" in path)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_run_leads_out_of_its_folder(settings: Settings, text: str) -> None:
    ref = VersionRef(settings, "delays", 1)
    for place in (manifest_path, read_state):
        with pytest.raises(BadInput) as refused:
            place(ref, text)
        assert refused.value.fields["field"] == "run"
    assert manifest_path(ref, run_key(text, 0)).parent.name == "v1"


GIVEN = {"view": "departure_delays", "version": "1", "run": "run-a"}
JOBS = [
    *[("rebuild", name) for name in ("view", "version", "days", "cut", "fingerprint", "run", "events")],
    *[("replay", name) for name in ("view", "version", "run", "days", "until", "fingerprint", "share", "source")],
]


@pytest.mark.parametrize(("name", "parameter"), JOBS)
def test_no_argument_of_a_job_is_more_than_a_value(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, parameter: str
) -> None:
    """They are refused before Spark starts, or soon after: here it must not."""
    module = import_module(f"anabranch.operate.jobs.{name}")

    def started(*_: Any, **__: Any) -> Any:
        raise BadInput("SPARK_STARTED", "it went on")

    monkeypatch.setattr(module, "engine", started)
    monkeypatch.setattr(module, "lower_own_priority", lambda: None, raising=False)  # of this process, for good
    later = {("rebuild", "cut"), ("rebuild", "fingerprint"), ("rebuild", "run"), ("replay", "run")}
    for text in (text for text in HOSTILE if text):
        given = {**GIVEN, **({"days": "2013-01-01"} if name == "rebuild" else {}), parameter: text}
        monkeypatch.setattr(sys, "argv", [name, *(f"--{key}={value}" for key, value in given.items())])
        try:
            code: Any = module.main()
        except (SystemExit, BadInput) as ended:
            code = ended.code
        told = capsys.readouterr().err + str(code)
        assert code in (1, 2, EXIT_NEEDS_FIX, "SPARK_STARTED", "VIEW_UNKNOWN"), (text, told)
        assert ("SPARK_STARTED" in told) == ((name, parameter) in later), (text, told)
    assert not CANARY.exists()
    assert not (settings.home / "lake").exists()


def test_a_home_of_any_name_is_only_a_folder(tmp_path: Path) -> None:
    """It stands in SQL of DuckDB, and in addresses of Delta."""
    home = tmp_path / f"o'hare;$(touch,{CANARY.name})');drop-view-rows;--"
    settings = Settings(home=home)
    uri = landing_table(settings, "flights")
    schema = pa.schema([("epoch", pa.int64()), ("event_date", pa.date32())])
    table = commits.create(uri, schema, ["event_date"], CommitMetadata("landing/flights", "create", Cut()))
    rows = pa.Table.from_pylist([{"epoch": 7, "event_date": date(2013, 1, 1)}], schema)
    commits.append(table, stage_arrow(rows, uri, "one", "event_date"), CommitMetadata("landing/flights", "e:1", Cut()))
    opened = commits.open_table(uri)
    assert opened is not None
    with landed_rows(opened) as found:
        assert found.execute("select epoch from rows").fetchall() == [(7,)]
    assert [path.name for path in tmp_path.iterdir()] == [home.name]
