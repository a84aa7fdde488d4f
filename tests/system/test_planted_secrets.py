"""Secrets that are planted, or that the platform has made itself, and looked for everywhere: after real runs and after
failures. Beside what holds them on purpose (``secrets`` below home, 0600) they are nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import psycopg
import pytest
from anabranch.apps.airflow.client import Client
from anabranch.contracts import load_declarations
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.http import access
from anabranch.ingest.kafka.admin import create_missing, end_offsets
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime._postgres_server import dsn
from anabranch.operate.runtime._ways_in import WAYS_IN
from anabranch.operate.runtime.airflow_parts import COMPONENTS
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch_samples.demo.change import own_project
from psycopg import sql
from support.hostile_texts import CANARY
from support.processes import SLOW, eventually, working
from support.secret_scan import Secrets
from support.sent_records import landed

pytestmark = [pytest.mark.system, pytest.mark.timeout(1_800)]

WRONG = "planted-wrong-0123456789abcdef"
HOSTILE = {
    "view": "departure_delays",
    "why": f"{{{{ 7*1911 }}}} $(touch {CANARY}) '; drop table dag; -- <script>alert(1)</script>",
    "changed": ["{{ 7*1911 }}", "../../etc/passwd"],
    "checks": [f"1 = 1); copy (select 1) to '{CANARY}'; --"],
}
"""What Airflow's form lets through: the plan has to refuse it."""
COMMAND = [sys.executable, "-m", "anabranch.apps.cli.main"]
PRODUCE = ["produce", "flights", "--from", "2013-01-01", "--days", "1", "--json"]


QUEUE = """
from anabranch.contracts import Queue, Topic
from anabranch.contracts.model.metrics import METRIC

METRICS = Topic("metrics", (METRIC,))
FROM_METRICS = Queue("shop.metrics", "metrics")
"""


@pytest.fixture(scope="module")
def secrets(planted: Secrets, planted_around: Secrets) -> Secrets:
    return Secrets({**planted.known, **planted_around.known, "wrong": WRONG})


@pytest.fixture(scope="module")
def told(
    guarded: Settings,
    secrets: Secrets,
    with_logins: dict[str, Any],
    full_shell: None,
    free_port: Callable[[], int],
) -> tuple[Settings, list[str]]:
    """A day of flights produced and landed, by processes that have the password in their environment, beside every way
    in; then the same with a wrong one, and settings that are wrong. What all of them said."""
    mine = guarded.model_dump(exclude={"kafka_password_file", "kafka_certificate"}) | with_logins
    mine |= {"home": guarded.home.parent / "planted", "bootstrap_servers": guarded.brokers, "statsd_topic": "metrics"}
    mine |= {"http_port": free_port(), "statsd_port": free_port()}
    settings = own_project(load_settings(**mine | {"kafka_password": secrets.known["anna"]}))
    (settings.contracts_folder / "planted.py").write_text(QUEUE)
    topics = load_declarations(settings.contracts_folder).topics
    create_missing(settings, list(topics.values()))
    access.allow(settings, "till", ["metrics"])
    said: list[str] = []
    with secrets.watched():
        with lifecycle.running(settings, ["landing", *WAYS_IN]):
            produced = anabranch(settings, *PRODUCE)
            said += [produced, anabranch(settings, "status"), anabranch(settings, "topics", "list")]
            assert json.loads(produced)["total"] > 1_000
            eventually(lambda: landed(settings) == sum(end_offsets(settings, "flights").values()), 120)
            secrets.look_at_environments(settings)
            secrets.look_at_environments(guarded)
        wrong = environment(settings) | {"ANABRANCH_KAFKA_PASSWORD": WRONG}
        said += [run(wrong, sys.executable, "spark_jobs/landing.py")]
        said += [run(wrong, *COMMAND, *words) for words in (["topics", "drift"], PRODUCE)]
        for options in (f'{{"sasl.password": "{WRONG}"}}', f'{{"sasl.password": "{WRONG}"'):
            bad = environment(settings) | {"ANABRANCH_KAFKA_OPTIONS": options}
            said.append(run(bad, *COMMAND, "status"))
    return settings, said


def anabranch(settings: Settings, *words: str) -> str:
    return run(environment(settings), *COMMAND, *words, fails=False)


def run(given: dict[str, str], *command: str, fails: bool = True) -> str:
    env = {**os.environ, **given}
    done = subprocess.run(command, env=env, cwd=given["ANABRANCH_PROJECT"], capture_output=True, text=True, timeout=60)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_what_went_wrong_was_told(told: tuple[Settings, list[str]]) -> None:
    """Else the others say nothing."""
    _, said = told
    assert [("BROKER_LOGIN_REFUSED" in text, "Traceback" in text) for text in said[3:6]] == [(True, False)] * 3
    assert ["SETTINGS_REFUSED" in text for text in said[6:]] == [True, True]


def test_no_word_of_ours_holds_a_password(told: tuple[Settings, list[str]], secrets: Secrets) -> None:
    assert [secrets.within(text.encode()) for text in told[1]] == [[]] * len(told[1])


def test_no_file_holds_it(told: tuple[Settings, list[str]], guarded: Settings, secrets: Secrets) -> None:
    """Logs, tables and their commits, checkpoints, control files, the broker's own data and configuration."""
    settings, _ = told
    names = {path.name for path in settings.home.iterdir()}
    assert {"lake", "logs", "checkpoints", "run"} <= names | {"run"}
    assert list((settings.lake / "landing/flights/_delta_log").glob("*.json"))
    assert (guarded.logs / "kafka.log").exists()
    assert secrets.in_files([settings.home, guarded.home]) == []


def test_no_process_list_shows_it(told: tuple[Settings, list[str]], secrets: Secrets) -> None:
    assert secrets.look_at_processes() == set()


def test_each_process_has_the_passwords_of_its_part_only(told: tuple[Settings, list[str]], secrets: Secrets) -> None:
    """The broker reads its own from a file; the shell's belong to none of them."""
    assert secrets.held == {
        "kafka": set(),
        "landing": {"anna", "registry"},
        "http": {"anna"},
        "queues": {"anna", "amqp"},
        "statsd": {"anna"},
    }
    assert "java" in secrets.looked_at["landing"]


def test_it_would_be_found(tmp_path: Path, secrets: Secrets) -> None:
    """In a file, and in a command line, in each of the forms that a program writes it in."""
    (tmp_path / "hexadecimal").write_text(f"x{secrets.known['anna'].encode().hex()}x")
    (tmp_path / "plain").write_text(f"password={secrets.known['anna']}")
    assert len(secrets.in_files([tmp_path])) == 2
    assert secrets.in_files([tmp_path], kept=[tmp_path]) == []
    # A secret of its own: whoever watches the others for the whole run would find them in this command, too.
    apart = Secrets({"decoy": f"planted-{token_hex(16)}"})
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)", apart.known["decoy"]])
    try:
        eventually(apart.look_at_processes, 10)
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.fixture(scope="module")
def its_own(platform: Settings) -> Secrets:
    """What the platform has made for itself: the passwords of its database and of Airflow's user, Airflow's keys."""
    folder = platform.home / "secrets"
    files = [folder / name for name in ("postgres", "airflow_api", "airflow_jwt", "fernet")]
    return Secrets({file.name: file.read_text().strip() for file in files} | {"admin": airflow_login(platform)[1]})


@pytest.fixture(scope="module")
def all_secrets(its_own: Secrets, planted_around: Secrets) -> Secrets:
    return Secrets({**its_own.known, **planted_around.known})


@pytest.fixture(scope="module")
def after_runs(platform: Settings, all_secrets: Secrets) -> Settings:
    """Three runs at least: a rebuild of a day without events, a migration that its parameters forbid, and a job of
    Spark's that finds nothing to load in a file. All environments are looked at meanwhile."""
    platform.load_folder.mkdir(exist_ok=True)
    (platform.load_folder / "planted.csv").write_text("id,source,type\n1,2\n")

    def look(stop: threading.Event) -> None:
        while not stop.wait(0.3):
            all_secrets.look_at_environments(platform)

    with working(look), Client(airflow_address(platform), airflow_login(platform)) as client:
        runs = [
            client.trigger("reprocess_departure_delays", {"from": "2012-12-24"}),
            client.trigger("migrate", HOSTILE),
            client.trigger("load", {"topic": "weather", "files": ["planted.csv"]}),
        ]
        ended = [client.wait(run, timeout=300 * SLOW) for run in runs]
        assert ended[1].state == "failed"
        assert ended[2].tasks["load"] == "success"
        said = client.task_log(runs[1], "plan_migration")
    assert "13377" not in said
    assert not CANARY.exists()
    return platform


def test_airflows_database_holds_no_secret(after_runs: Settings, all_secrets: Secrets) -> None:
    """Runs, parameters, rendered fields, XComs, logs, serialized DAGs, and whatever else there is."""
    found, rows = [], 0
    with psycopg.connect(dsn(after_runs)) as connection:
        named = (
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        for schema, table in connection.execute(named).fetchall():
            whole = sql.SQL("SELECT t::text FROM {}.{} t").format(sql.Identifier(schema), sql.Identifier(table))
            for (text,) in connection.execute(whole):
                rows += 1
                found += [f"{name} in {table}" for name in all_secrets.within(text.encode())]
    assert rows > 100
    assert found == []


def test_no_file_of_the_platform_holds_one_but_its_own(
    after_runs: Settings, all_secrets: Secrets, its_own: Secrets
) -> None:
    kept = after_runs.home / "secrets"
    assert all_secrets.in_files([after_runs.home], kept=[kept]) == []
    assert {file.stat().st_mode & 0o777 for file in kept.iterdir()} == {0o600}
    found = {line.partition(" in ")[0] for line in all_secrets.in_files([kept])}
    assert found == set(its_own.known), "these are others: this test says nothing"


def test_no_process_of_the_platform_shows_one(after_runs: Settings, all_secrets: Secrets) -> None:
    assert all_secrets.look_at_processes() == set()


def test_each_process_of_the_platform_has_what_its_part_uses(after_runs: Settings, all_secrets: Secrets) -> None:
    """Also while tasks run: neither they nor their Spark jobs have Airflow's own secrets or the database's password."""
    connections = {f"airflow-{name}": {"connection"} for name in COMPONENTS}
    assert all_secrets.held == {
        "kafka": set(),
        "postgres": set(),
        "landing": {"registry"},
        "speed": set(),
        **connections,
    }
    assert "java" in all_secrets.looked_at["airflow-scheduler"], "no job of Spark's was looked at"


def test_airflow_shows_nobody_its_settings(after_runs: Settings, all_secrets: Secrets) -> None:
    with Client(airflow_address(after_runs), airflow_login(after_runs)) as client:
        headers = client.authorisation()
    for path in ("config", "connections", "variables", "plugins"):
        answer = httpx.get(f"{airflow_address(after_runs)}/api/v2/{path}", headers=headers, timeout=30)
        assert all_secrets.within(answer.content) == []
