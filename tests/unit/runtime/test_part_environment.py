"""What each part is given of the environment of who starts the platform: what it needs, and no secret of another one.
Each part is started as the supervisor starts it, with a program in its place that says what it was given."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.http import access
from anabranch.operate.runtime._part_needs import AIRFLOW_SECRETS, DIRTY_DAYS, LOGINS, NEEDS, from_shell
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime._services import catalog
from anabranch.operate.runtime._supervisor import launch
from anabranch.operate.runtime.airflow_parts import airflow_secrets
from anabranch.operate.runtime.environment import environment, part_environment
from pydantic import SecretStr
from support.secret_scan import Secrets

pytestmark = pytest.mark.unit

QUEUE: Final = """
from anabranch.contracts import Queue, Topic
from anabranch.contracts.model.metrics import METRIC

SALES = Topic("sales", (METRIC,))
FROM_SALES = Queue("shop.sales", "sales")
"""
PLANTED: Final = {
    "kafka": "planted-kafka-0123456789abcdef",
    "registry": "planted-registry-0123456789abcdef",
    "amqp": "planted-amqp-0123456789abcdef",
    "aws": "planted-aws-0123456789abcdef",
    "connection": "planted-connection-0123456789abcdef",
    "proxy": "planted-proxy-0123456789abcdef",
    "vault": "planted-vault-0123456789abcdef",
    "shell": "planted-shell-0123456789abcdef",
}
SHELL: Final = {
    "AWS_SECRET_ACCESS_KEY": PLANTED["aws"],
    "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({"conn_type": "smtp", "password": PLANTED["connection"]}),
    "https_proxy": f"http://me:{PLANTED['proxy']}@proxy.example:3128",
    "VAULT_TOKEN": PLANTED["vault"],
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "SHOP_TOKEN": PLANTED["shell"],
    "GITHUB_TOKEN": PLANTED["shell"],
    "PIP_INDEX_URL": f"https://me:{PLANTED['shell']}@index.example",
    "PGPASSWORD": PLANTED["shell"],
    "ANABRANCH_OF_ANOTHER_VERSION": PLANTED["shell"],
}
OF_AIRFLOW: Final = {"aws", "connection", "proxy", "vault"}
GIVEN_NOTHING: Final = "postgres"
"""It runs in an environment of its own."""
MAY_HAVE: Final[dict[str, set[str]]] = {
    "kafka": {"kafka"},
    "postgres": set(),
    "airflow-migrate": set(),
    "airflow-api-server": OF_AIRFLOW,
    "airflow-scheduler": OF_AIRFLOW | {"kafka"},
    "airflow-dag-processor": OF_AIRFLOW,
    "airflow-triggerer": OF_AIRFLOW,
    "landing": {"kafka", "registry", "proxy"},
    "speed": set(),
    "http": {"kafka"},
    "queues": {"kafka", "amqp"},
    "statsd": {"kafka"},
}
"""Which of them each part may have, and has. Of Airflow's own none has any: Airflow reads them from files."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """With every login that there is, every way in, and an environment that is full of secrets."""
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    certificate = tmp_path / "broker.pem"
    certificate.touch()
    (tmp_path / "spark_jobs" / "contracts").mkdir(parents=True)
    (tmp_path / "spark_jobs" / "contracts" / "shop.py").write_text(QUEUE)
    access.allow(Settings(home=tmp_path / "home", project=tmp_path), "till", ["sales"])
    given: dict[str, Any] = {
        "project": tmp_path,
        "home": tmp_path / "home",
        "kafka_user": "anna",
        "kafka_password": PLANTED["kafka"],
        "kafka_ca": certificate,
        "kafka_certificate": certificate,
        "kafka_host": "broker.example",
        "kafka_options": {"client.id": "us"},
        "schema_registry_url": "https://registry.example",
        "schema_registry_user": "anna",
        "schema_registry_password": PLANTED["registry"],
        "amqp_url": "amqps://anna@rabbit.example",
        "amqp_password": PLANTED["amqp"],
        "statsd_topic": "sales",
    }
    for name, value in given.items():  # as `anabranch up` gets them
        text = value if isinstance(value, str) else json.dumps(value, default=str).strip('"')
        monkeypatch.setenv(f"ANABRANCH_{name.upper()}", text)
    return load_settings()


@pytest.fixture
def started(settings: Settings, tmp_path: Path) -> Callable[[Service], dict[str, str]]:
    """Starts ``env`` as this part; what it was given."""

    def start(part: Service) -> dict[str, str]:
        log = tmp_path / f"{part.name}.log"
        launch(replace(part, command=("/usr/bin/env", "-0"), cwd=tmp_path, log=log, user=None)).wait(30)
        return dict(pair.split("=", 1) for pair in log.read_text().split("\0") if pair)

    return start


def test_each_part_has_the_secrets_that_it_uses_and_no_other(
    settings: Settings, started: Callable[[Service], dict[str, str]]
) -> None:
    secrets = Secrets({**PLANTED, **airflow_secrets(settings)})
    parts = {part.name: started(part) for part in catalog(settings)}
    found = {name: set(secrets.within("\n".join(given.values()).encode())) for name, given in parts.items()}
    assert found == MAY_HAVE
    assert {name for name, given in parts.items() if "KUBERNETES_SERVICE_HOST" in given} == {
        name for name, may in MAY_HAVE.items() if may >= OF_AIRFLOW
    }


def test_each_part_loads_its_settings_from_what_it_was_given(
    settings: Settings, started: Callable[[Service], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the same but for the logins of others, also where ``anabranch.env`` has those, too."""
    lines = [f"ANABRANCH_{name.upper()}={getattr(settings, name)}" for name in ("kafka_user", "amqp_url", "home")]
    lines += [f"ANABRANCH_KAFKA_PASSWORD={PLANTED['kafka']}", f"ANABRANCH_AMQP_PASSWORD={PLANTED['amqp']}"]
    (settings.project / "anabranch.env").write_text("\n".join(lines))
    blank = Settings.model_construct()
    for part in catalog(settings):
        if part.name in ("postgres", "kafka"):  # no program of ours
            continue
        for name in list(os.environ):
            monkeypatch.delenv(name)
        for name, value in started(part).items():
            monkeypatch.setenv(name, value)
        loaded = load_settings()
        for login, fields in LOGINS.items():
            for field in fields:
                theirs = getattr(settings if login in NEEDS[part.name].logins else blank, field)
                assert getattr(loaded, field) == theirs, (part.name, field)
        same = set(Settings.model_fields) - {field for fields in LOGINS.values() for field in fields}
        assert [name for name in same if getattr(loaded, name) != getattr(settings, name)] == [], part.name


def test_a_setting_that_is_a_secret_belongs_to_a_login() -> None:
    """And so is given only to the parts that declare that they use it."""
    secret = {name for name, field in Settings.model_fields.items() if field.annotation is SecretStr}
    assert len(secret) >= 3
    assert secret <= {name for fields in LOGINS.values() for name in fields}


def test_a_part_that_has_declared_nothing_can_t_be_made(settings: Settings) -> None:
    assert set(NEEDS) == {part.name for part in catalog(settings)} - {GIVEN_NOTHING} | {DIRTY_DAYS}
    with pytest.raises(KeyError):
        part_environment(settings, "new")


def test_each_part_gets_what_it_declares(
    settings: Settings, started: Callable[[Service], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the shell. Postgres declares nothing, and has nothing of it."""
    monkeypatch.setenv("LC_ALL", "de_AT.UTF-8")
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    for part in catalog(settings):
        given = started(part)
        if part.name in NEEDS:
            assert set(from_shell(part.name, os.environ, settings.pass_env)) <= set(given), part.name
        else:
            assert (part.name, given) == (GIVEN_NOTHING, {"HOME": "/", "LC_ALL": "C.UTF-8", "PATH": os.defpath})


def test_what_any_process_needs_reaches_each_part_of_ours(
    settings: Settings, started: Callable[[Service], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = {
        "HOME": "/home/anna",
        "LC_ALL": "C.UTF-8",
        "TZ": "Europe/Vienna",
        "TMPDIR": "/var/tmp",  # noqa: S108
        "JAVA_HOME": "/opt/java",
        "SPARK_SUBMIT_OPTS": "-Dx=y",
        "PYTHONPATH": "/opt/lib",
        "LD_LIBRARY_PATH": "/opt/lib",
        "LD_PRELOAD": "",
        "FAKETIME_TIMESTAMP_FILE": "/shift",
        "SSL_CERT_FILE": "/ca.pem",
        "COVERAGE_PROCESS_START": "/coverage",
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }
    for name, value in needed.items():
        monkeypatch.setenv(name, value)
    parts = [part for part in catalog(settings) if part.name != "postgres"]
    assert [part.name for part in parts if not needed.items() <= started(part).items()] == []
    assert {started(part)["PATH"].split(os.pathsep)[0] for part in parts} == {str(Path(sys.executable).parent)}


def test_what_the_project_s_code_reads_is_passed_on_by_name(
    settings: Settings, started: Callable[[Service], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the parts that load it: both paths compute a view from the same."""
    monkeypatch.setenv("SHOP_REGION", "eu")
    monkeypatch.setenv("ANABRANCH_PASS_ENV", '["SHOP_*", "NOT_SET"]')
    chosen = load_settings()
    given = {part.name: started(part) for part in catalog(chosen)}
    got = {name for name, variables in given.items() if variables.get("SHOP_REGION") == "eu"}
    assert got == set(MAY_HAVE) - {"kafka", "postgres", "airflow-migrate"}
    assert {name for name, variables in given.items() if "SHOP_TOKEN" in variables} == got
    assert [name for name, variables in given.items() if {"GITHUB_TOKEN", "NOT_SET"} & set(variables)] == []
    assert part_environment(chosen, DIRTY_DAYS)["SHOP_REGION"] == "eu"


@pytest.mark.parametrize(
    "names", ['["ANABRANCH_KAFKA_PASSWORD"]', '["ANABRANCH_*"]', '["*"]', '["A*B"]', '["A B"]', "A"]
)
def test_a_name_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    monkeypatch.setenv("ANABRANCH_PASS_ENV", names)
    with pytest.raises(BadInput, match="SETTINGS_REFUSED"):
        load_settings()


def test_airflow_reads_its_secrets_from_files_of_its_own(
    settings: Settings, started: Callable[[Service], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By commands, each of which prints the secret and nothing else. What a shell says of them reaches nobody: Airflow
    would take it instead."""
    for name in AIRFLOW_SECRETS:
        for how in ("", "_CMD", "_SECRET"):
            monkeypatch.setenv(name + how, PLANTED["shell"])
    monkeypatch.setenv("ANABRANCH_PASS_ENV", '["AIRFLOW__*"]')
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    known, reads = airflow_secrets(settings), dict[str, set[str]]()
    for part in catalog(load_settings()):
        given = started(part)
        assert [name for name in AIRFLOW_SECRETS if {name, f"{name}_SECRET"} & set(given)] == [], part.name
        if part.name.startswith("airflow"):
            part.prepare()
            reads[part.name] = {name for name in AIRFLOW_SECRETS if f"{name}_CMD" in given}
            for name in reads[part.name]:
                command = shlex.split(given[f"{name}_CMD"])
                assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == known[name]
                assert Path(command[-1]).stat().st_mode & 0o777 == 0o600
    database = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"}
    stored = database | {"AIRFLOW__CORE__FERNET_KEY"}
    assert reads == {
        "airflow-migrate": stored,
        "airflow-api-server": set(AIRFLOW_SECRETS),
        "airflow-scheduler": stored | {"AIRFLOW__API_AUTH__JWT_SECRET"},
        "airflow-dag-processor": stored,
        "airflow-triggerer": stored,
    }


def test_a_file_of_airflow_s_follows_what_it_is_made_from(settings: Settings) -> None:
    """The database's port is part of an address."""
    for port in (20_001, 20_002):
        moved = settings.model_copy(update={"postgres_port": port})
        migration = next(part for part in catalog(moved) if part.name == "airflow-migrate")
        migration.prepare()
        command = shlex.split(migration.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD"])
        assert f":{port}/" in Path(command[-1]).read_text()


def test_a_command_of_a_person_has_all_of_them(settings: Settings) -> None:
    """And so has the supervisor, which gives each part its own."""
    given = "\n".join(environment(settings).values()).encode()
    assert set(Secrets(PLANTED).within(given)) == {"kafka", "registry", "amqp"}


def test_settings_of_a_container_need_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ANABRANCH_")]:
        monkeypatch.delenv(name)
    plain = Settings(project=project_root())
    for part in NEEDS:
        for name, value in part_environment(plain, part).items():
            monkeypatch.setenv(name, value)
        assert Settings() == plain, part
