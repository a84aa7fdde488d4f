"""What is checked before a start: each failure has its code, its fields and a next step."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.runtime import _preflight
from anabranch.operate.runtime._preflight import (
    FREE_BYTES_NEEDED,
    check_all,
    check_disk,
    check_distinct,
    check_java,
    check_port,
)
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime._services import catalog
from anabranch.operate.runtime.kafka_server import java

pytestmark = pytest.mark.unit


def program(folder: Path, says: str, code: int = 0) -> str:
    """A real executable that answers as a Java of another version does: on stderr."""
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021-10-19', 17),
    ],
)
def test_a_java_that_is_new_enough(tmp_path: Path, says: str, major: int) -> None:
    assert check_java(program(tmp_path, says)) == major


@pytest.mark.parametrize(("says", "major"), [('java version "1.8.0_392"', 8), ('openjdk version "11.0.2" 2019', 11)])
def test_java_too_old(tmp_path: Path, says: str, major: int) -> None:
    with pytest.raises(BadInput) as refused:
        check_java(program(tmp_path, says))
    assert refused.value.code == "JAVA_TOO_OLD"
    assert refused.value.fields["version"] == major
    assert "JAVA_HOME" in refused.value.next_step


def test_no_java(tmp_path: Path) -> None:
    for missing in (str(tmp_path / "bin/java"), program(tmp_path, "Unable to locate a Java Runtime.", 1)):
        with pytest.raises(BadInput) as refused:
            check_java(missing)
        assert refused.value.code == "JAVA_MISSING"
        assert refused.value.fields["program"] == missing


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java() == str(tmp_path / "bin/java")
    monkeypatch.delenv("JAVA_HOME")
    assert java() == (shutil.which("java") or "java")


def test_a_port_in_use_names_port_holder_and_setting() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(TryAgain) as refused:
            check_port("kafka", "ANABRANCH_KAFKA_PORT", port)
    assert refused.value.code == "PORT_IN_USE"
    assert refused.value.fields == {
        "part": "kafka",
        "port": port,
        "variable": "ANABRANCH_KAFKA_PORT",
        "pid": os.getpid(),
    }
    assert f"process {os.getpid()}" in refused.value.what
    assert "ANABRANCH_KAFKA_PORT" in refused.value.next_step
    check_port("kafka", "ANABRANCH_KAFKA_PORT", port)  # free again


def test_two_settings_with_one_port() -> None:
    check_distinct({"A": 2000, "B": 2001})
    with pytest.raises(BadInput) as refused:
        check_distinct({"A": 2000, "B": 2000})
    assert refused.value.code == "PORT_TWICE"


def test_too_little_disk(tmp_path: Path) -> None:
    home = tmp_path / "not/yet/made"
    check_disk(home, 1)
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(TryAgain) as refused:
        check_disk(home, free * 2)
    assert refused.value.code == "DISK_FULL"
    assert refused.value.fields["needed"] == free * 2
    assert "ANABRANCH_HOME" in refused.value.next_step
    assert FREE_BYTES_NEEDED == 3_000_000_000


def test_an_external_broker_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as unused:  # bound, not listening: a connection is refused
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        settings = Settings(home=tmp_path, bootstrap_servers=address)
        with pytest.raises(AnabranchError) as refused:
            check_all(settings, [])
    assert refused.value.code == "BROKER_UNREACHABLE"
    assert address in refused.value.what
    assert "ANABRANCH_BOOTSTRAP_SERVERS" in refused.value.next_step


def test_no_jars(tmp_path: Path) -> None:
    part = Service("kafka", ("true",), tmp_path, tmp_path / "log")
    with pytest.raises(AnabranchError) as refused:
        check_all(Settings(home=tmp_path, jars=tmp_path / "none"), [part])
    assert (refused.value.code, refused.value.next_step) == ("JARS_MISSING", "anabranch setup")


@pytest.mark.parametrize("name", ["kafka_port", "kafka_controller_port", "postgres_port", "airflow_port"])
def test_the_port_of_each_part_is_checked_before_any_part_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int], name: str
) -> None:
    monkeypatch.setattr(_preflight, "check_jars", lambda _: None)
    names = ("kafka_port", "kafka_controller_port", "postgres_port", "airflow_port")
    ports: dict[str, Any] = {each: free_port() for each in names}
    settings = Settings(home=tmp_path, **ports)
    parts = catalog(settings)
    assert {variable for part in parts for variable in part.ports} == {f"ANABRANCH_{each.upper()}" for each in names}
    check_all(settings, parts)
    with socket.socket() as server:
        server.bind(("0.0.0.0", getattr(settings, name)))  # noqa: S104
        server.listen()
        with pytest.raises(TryAgain) as refused:
            check_all(settings, parts)
    assert refused.value.code == "PORT_IN_USE"
    assert refused.value.fields["variable"] == f"ANABRANCH_{name.upper()}"
    assert refused.value.state == "nothing was started"


def test_a_port_is_looked_for_where_the_broker_listens(free_port: Callable[[], int]) -> None:
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.2", port))
        server.listen()
        check_port("kafka", "ANABRANCH_KAFKA_PORT", port)
        with pytest.raises(TryAgain) as refused:
            check_port("kafka", "ANABRANCH_KAFKA_PORT", port, "127.0.0.2")
    assert f"127.0.0.2:{port}" in refused.value.what
