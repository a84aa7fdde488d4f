"""The parts themselves: loopback only, secrets made once, what a name or a group starts."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anabranch
import psutil
import pytest
from anabranch.contracts.model.topics import RETENTION_ALARM
from anabranch.core.airflow_settings import passwords_file
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka import admin
from anabranch.ingest.landing import status
from anabranch.lake.cut import Cut, Position
from anabranch.operate import jobs
from anabranch.operate.jobs import job_file
from anabranch.operate.runtime._postgres_server import PostgresPaths, _copy_whole, _prepare, _site, place
from anabranch.operate.runtime._service import depths
from anabranch.operate.runtime._services import catalog, parts_named
from anabranch.operate.runtime._supervisor import launch
from anabranch.operate.runtime.airflow_parts import airflow_environment
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.kafka_server import kafka_home, prepare, properties, unpacked
from anabranch.operate.runtime.lag import _alarm, _records_behind, lag
from anabranch.operate.runtime.secret_files import airflow_login, airflow_passwords, fernet_key, secret
from cryptography.fernet import Fernet

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def names(settings: Settings, *wanted: str) -> list[str]:
    return [part.name for part in parts_named(settings, wanted)]


def test_a_name_brings_what_it_needs(settings: Settings) -> None:
    assert names(settings, "kafka") == ["kafka"]
    assert names(settings, "airflow-scheduler") == [
        "postgres", "airflow-migrate", "airflow-api-server", "airflow-scheduler",
    ]  # fmt: skip
    assert names(settings) == [part.name for part in catalog(settings)]
    airflow = [name for name in names(settings) if name.startswith("airflow")]
    assert names(settings, "airflow") == ["postgres", *airflow]
    assert len(airflow) == 5


def test_a_project_s_own_program_is_run_in_place_of_ours(settings: Settings, tmp_path: Path) -> None:
    bare = settings.model_copy(update={"project": tmp_path / "project"})
    assert names(bare, "landing") == ["kafka", "landing"]
    assert job_file(bare, "landing").is_relative_to(Path(anabranch.__file__).parent)
    own = bare.project / "spark_jobs" / "landing.py"
    own.parent.mkdir(parents=True)
    own.touch()
    assert job_file(bare, "landing") == own


@pytest.mark.parametrize("name", ["landing", "speed", "rebuild", "reconcile", "replay"])
def test_a_copy_from_an_older_version_is_run_only_if_it_was_changed(
    settings: Settings, tmp_path: Path, name: str
) -> None:
    project = tmp_path / "project"
    with tarfile.open(Path(__file__).parents[2] / "support" / "old_home" / "home_46c6225.tar.xz") as archive:
        archive.extract(f"project/spark_jobs/{name}.py", tmp_path, filter="data")
    bare = settings.model_copy(update={"project": project})
    copy = project / "spark_jobs" / f"{name}.py"
    assert job_file(bare, name).parent == Path(jobs.__file__).parent
    with copy.open("a") as file:
        file.write("# mine\n")
    assert job_file(bare, name) == copy


def test_no_broker_of_ours_beside_another_cluster(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, bootstrap_servers="broker:9092")
    assert "kafka" not in names(settings)
    with pytest.raises(BadInput) as refused:
        parts_named(settings, ["kafka"])
    assert refused.value.code == "PART_EXTERNAL"


def test_parts_of_two_projects_have_nothing_in_common_but_programs(tmp_path: Path) -> None:
    """Each with its own home and ports. What a part is given holds no path, port or secret of the other project."""
    names = [name for name in Settings.model_fields if name.endswith("_port")]

    def project(name: str, first_port: int) -> Settings:
        ports: dict[str, Any] = {each: first_port + place for place, each in enumerate(names)}
        return Settings(project=tmp_path / name, home=tmp_path / f"{name}-home", airflow_logins={"anna": "op"}, **ports)

    first, second = project("shop", 20_001), project("bakery", 30_001)

    def own(settings: Settings) -> set[str]:
        secrets = {secret(settings, name) for name in ("postgres", "airflow_api", "airflow_jwt")}
        secrets |= {fernet_key(settings), *airflow_passwords(settings).values()}
        return secrets | {str(settings.project), str(settings.home), *(str(getattr(settings, name)) for name in names)}

    assert not own(first) & own(second)
    for settings, other in ((first, second), (second, first)):
        for part in catalog(settings):
            given = [*part.command, str(part.cwd), str(part.log), *part.env.values(), *map(str, part.ports.values())]
            assert [text for text in given for word in own(other) if word in text] == [], part.name
        assert [word for word in own(other) if word in "\n".join(properties(settings).values())] == []
    assert place(first).data != place(second).data, "the folder of the database"
    endings = ("_HOME", "_CONN", "_KEY", "_SECRET", "_PORT", "_FOLDER", "_CMD")
    for name in (part.name for part in catalog(first) if part.name.startswith("airflow")):
        shared = airflow_environment(first, name).items() & airflow_environment(second, name).items()
        assert not [variable for variable, _ in shared if variable.endswith(endings)], name


def test_everything_listens_on_loopback(settings: Settings) -> None:
    broker = properties(settings)
    addresses = (broker["listeners"] + "," + broker["advertised.listeners"]).split(",")
    assert [address.split("://")[1].split(":")[0] for address in addresses] == ["127.0.0.1"] * 3
    postgres = parts_named(settings, ["postgres"])[0].command
    assert {"listen_addresses=127.0.0.1", "unix_socket_directories="} < set(postgres)
    airflow = airflow_environment(settings, "airflow-api-server")
    assert (airflow["AIRFLOW__API__HOST"], airflow["SPARK_LOCAL_IP"]) == ("127.0.0.1", "127.0.0.1")
    for part in parts_named(settings, ["airflow-scheduler", "airflow-triggerer"])[-2:]:
        assert "--skip-serve-logs" in part.command


def test_no_variable_of_a_shell_opens_a_server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a part is given of the environment of who starts it comes before its own."""
    opening = {"AIRFLOW__API__HOST": "0.0.0.0", "SPARK_LOCAL_IP": "0.0.0.0"}  # noqa: S104
    opening |= {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True", "AIRFLOW__API__EXPOSE_CONFIG": "True"}
    for name, value in opening.items():
        monkeypatch.setenv(name, value)
    for part in catalog(settings):
        seen = part.env
        if part.name.startswith("airflow"):
            assert [seen[name] for name in opening] == ["127.0.0.1", "127.0.0.1", "False", "False"]
        elif part.name in ("landing", "speed"):
            assert seen["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_ports_name_their_setting(settings: Settings) -> None:
    ports = {variable: port for part in catalog(settings) for variable, port in part.ports.items()}
    for variable, port in ports.items():
        assert getattr(settings, variable.removeprefix("ANABRANCH_").lower()) == port


def test_secrets_are_made_once_and_are_private(settings: Settings, tmp_path: Path) -> None:
    first = [secret(settings, "a"), fernet_key(settings), airflow_login(settings)[1]]
    assert [secret(settings, "a"), fernet_key(settings), airflow_login(settings)[1]] == first
    other = Settings(home=tmp_path / "other")
    assert not {secret(other, "a"), fernet_key(other), airflow_login(other)[1]} & set(first)
    files = list((settings.home / "secrets").iterdir())
    assert len(files) == 3
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    Fernet(fernet_key(settings))
    assert json.loads(passwords_file(settings).read_text()) == {"admin": first[2]}


def test_a_secret_that_was_not_written_to_its_end_is_made_again(settings: Settings) -> None:
    (settings.home / "secrets").mkdir(parents=True)
    (settings.home / "secrets/a").touch()
    assert len(secret(settings, "a")) == 43


def test_the_environment_carries_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        home=tmp_path,
        bootstrap_servers="a:1,b:2",
        kafka_options={"client.id": 'quote " and $HOME'},
        spark_master="local[1]",
        kafka_port=2000,
    )
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings


def test_the_spark_connection_is_the_setting(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, spark_master="spark://somewhere:7077")
    assert (
        json.loads(airflow_environment(settings, "airflow-scheduler")["AIRFLOW_CONN_SPARK_DEFAULT"])["host"]
        == "spark://somewhere:7077"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run Postgres as somebody else")
def test_root_runs_postgres_as_somebody_who_reaches_its_folders(settings: Settings, tmp_path: Path) -> None:
    settings.home.mkdir()
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            break
    else:
        pytest.skip("every folder above is open to all")
    found = place(settings)
    assert found.user is not None
    assert not found.data.is_relative_to(settings.home)  # a private folder is not opened for it
    assert place(settings) == found


def test_a_lock_of_a_killed_database_whose_pid_another_process_has_is_removed(
    settings: Settings, tmp_path: Path
) -> None:
    """Postgres itself takes any process of its user with that pid for the former one, and never starts."""
    where = PostgresPaths(_site(), tmp_path / "data", None)
    where.data.mkdir()
    (where.data / "PG_VERSION").touch()
    lock = where.data / "postmaster.pid"
    (postgres := tmp_path / "postgres").symlink_to("/bin/sleep")

    def kept(pid: object) -> bool:
        lock.write_text(f"{pid}\n{where.data}\n1795000000\n")
        _prepare(settings, where)
        return lock.exists()

    with subprocess.Popen(["/bin/sleep", "600"], cwd=where.data) as stranger:
        try:
            assert [kept(pid) for pid in (stranger.pid, 2**22 + 1, "torn")] == [False, True, True]
            with subprocess.Popen([postgres, "600"], cwd=where.data) as ours:
                while psutil.Process(ours.pid).name() != "postgres":
                    time.sleep(0.01)
                assert kept(ours.pid)
                assert kept(stranger.pid), "one of its processes lives, and the lock guards its memory"
                ours.kill()
            with subprocess.Popen([postgres, "600"], cwd=tmp_path) as of_another_home:
                assert not kept(of_another_home.pid)
                of_another_home.kill()
        finally:
            stranger.kill()


def test_the_database_knows_no_password_but_its_own(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is started with, and who may read the file that initdb takes its password from: a real initdb."""
    (part,) = parts_named(settings, ["postgres"])
    monkeypatch.setenv("ANABRANCH_KAFKA_PASSWORD", "another server's")
    show = replace(part, command=("/usr/bin/env",), cwd=tmp_path, log=tmp_path / "log", user=None)
    launch(show).wait(30)
    assert set(show.log.read_text().split()) == {f"{name}={value}" for name, value in show.env.items()}

    old, seen = os.umask(0o022), list[int]()
    run = subprocess.run

    def looked_at(command: Sequence[str], **more: Any) -> Any:
        files = [Path(word.partition("=")[2]) for word in command if word.startswith("--pwfile=")]
        seen.extend(file.stat().st_mode & 0o777 for file in files)
        return run(command, **more)

    monkeypatch.setattr(subprocess, "run", looked_at)
    try:
        part.prepare()
    finally:
        os.umask(old)
        data = place(settings).data
        made = (data / "PG_VERSION").exists()
        shutil.rmtree(data.parent if data.parent.name.startswith("anabranch-postgres-") else data)
    assert (seen, made) == ([0o600], True)


def test_a_topic_that_halts_before_its_first_record_is_named(settings: Settings) -> None:
    refused = TryAgain("BROKER_REFUSED", "no", state="nothing was changed", next_step="look")
    status.write(settings, {"weather": refused})
    assert lag(settings)["landing"] == "weather: nothing landed, halted (BROKER_REFUSED)"


def test_lag_says_nothing_about_what_is_not_there_and_never_raises(settings: Settings) -> None:
    assert lag(settings) == {}
    (settings.lake / "landing/flights/_delta_log").mkdir(parents=True)
    (settings.lake / "landing/flights/_delta_log/00000000000000000000.json").write_text("{torn")
    (settings.lake / "views/delays/v1/speed").mkdir(parents=True)
    found = lag(settings)
    assert found["landing"].startswith("flights: unknown (")
    assert found["speed"] == "delays v1: no commit yet"


@pytest.mark.parametrize(
    ("retention", "said"),
    [
        (str(2**63 - 1), ""),
        (str(3_000 * 365 * 86_400_000), ""),
        ("-1", ""),
        ("None", "retention unknown (None)"),
        ("a week", "retention unknown (a week)"),
        ("60000", "ALARM: at any time retention may delete what has not landed"),
    ],
)
def test_a_retention_that_is_for_ever_or_unreadable_is_no_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, retention: str, said: str
) -> None:
    monkeypatch.setattr(admin, "topic_settings", lambda *_: {"retention.ms": retention})
    monkeypatch.setattr(admin, "offsets_since", lambda *_: {0: 9})
    assert _alarm(settings, "flights", RETENTION_ALARM, {0: 4}, {0: 9}) == said


def test_a_start_takes_away_what_a_killed_broker_has_unpacked(settings: Settings) -> None:
    formatted = kafka_home(settings) / "data" / "meta.properties"
    for file in (formatted, unpacked(settings) / "liblz4-java-1.so"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    prepare(settings)
    assert list(unpacked(settings).iterdir()) == []
    assert formatted.exists()


def test_without_a_view_speed_is_no_part_and_that_is_said(settings: Settings, tmp_path: Path) -> None:
    bare = settings.model_copy(update={"project": tmp_path / "project"})
    assert names(bare, "kafka", "streams") == ["kafka", "landing"]
    assert names(bare) == [part.name for part in catalog(bare) if part.name != "speed"]
    assert names(settings, "kafka", "streams") == ["kafka", "landing", "speed"]
    with pytest.raises(BadInput) as refusal:
        names(bare, "speed")
    assert refusal.value.code == "NO_VIEWS"
    assert f"no view is declared in {bare.views_folder}" in str(refusal.value)
    bare.views_folder.mkdir(parents=True)
    (bare.views_folder / "_helper.py").touch()
    assert names(bare, "streams") == ["kafka", "landing"]
    (bare.views_folder / "delays.py").touch()
    assert names(bare, "streams") == ["kafka", "landing", "speed"]


def test_logins_of_the_settings_have_passwords_of_their_own(settings: Settings) -> None:
    """Made before Airflow starts: it would print those that it makes itself."""
    first = airflow_login(settings)
    more = settings.model_copy(update={"airflow_logins": {"anna": "op", "guest": "viewer"}})
    environment = airflow_environment(more, "airflow-api-server")
    assert environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == "admin:admin,anna:op,guest:viewer"
    known = json.loads(passwords_file(settings).read_text())
    assert list(known) == ["admin", "anna", "guest"]
    assert len(set(known.values())) == 3
    assert min(map(len, known.values())) >= 16
    assert passwords_file(settings).stat().st_mode & 0o777 == 0o600
    assert airflow_login(more) == first
    airflow_environment(more, "airflow-scheduler")
    assert json.loads(passwords_file(settings).read_text()) == known, "a password was changed"


@pytest.mark.parametrize("logins", ['{"admin": "viewer"}', '{"a:admin,b": "viewer"}', '{"anna": "root"}', '{"": "op"}'])
def test_a_login_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, logins: str) -> None:
    monkeypatch.setenv("ANABRANCH_AIRFLOW_LOGINS", logins)
    with pytest.raises(BadInput) as refused:
        load_settings()
    assert refused.value.fields["settings"] == ["airflow_logins"]


def test_tasks_start_when_the_server_answers_that_they_report_to(settings: Settings) -> None:
    """Else the first try of the first run fails."""
    parts = {part.name: part for part in catalog(settings)}
    assert parts["airflow-scheduler"].depends_on == ("airflow-api-server",)
    depth = depths(catalog(settings))
    assert depth["airflow-scheduler"] > depth["airflow-api-server"], "and they end before it does"


def test_a_copy_that_was_killed_half_way_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, real = tmp_path / "source", tmp_path / "place" / "bin", shutil.copytree
    (source / "lib").mkdir(parents=True)
    (source / "lib" / "a").write_text("a")

    def half(_: Path, to: Path) -> None:
        to.mkdir(parents=True)
        (to / "half").touch()
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", half)
        with pytest.raises(OSError, match="no space left"):
            _copy_whole(source, target)
    assert not target.exists()
    monkeypatch.setattr(shutil, "copytree", real)
    _copy_whole(source, target)
    assert [path.relative_to(target).as_posix() for path in sorted(target.rglob("*"))] == ["lib", "lib/a"]


def test_the_broker_is_asked_for_a_topic_by_its_name_there(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contracts = tmp_path / "spark_jobs" / "contracts"
    contracts.mkdir(parents=True)
    (contracts / "orders.py").write_text(
        "from datetime import timedelta\nfrom anabranch.contracts import Contract, Topic\n"
        'SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}\n'
        'ORDERS = Topic("orders", (Contract("order.placed", 1, SCHEMA),), '
        'kafka_topic="prod.orders-v2", retention_alarm=timedelta(days=400))\n'
    )
    settings, asked = settings.model_copy(update={"project": tmp_path}), list[str]()

    def answer(found: object) -> Callable[..., object]:
        def asks(_: Settings, topic: str, *__: object) -> object:
            asked.append(topic)
            return found

        return asks

    for name, found in (("end_offsets", {0: 9}), ("readable_ends", {0: 9}), ("offsets_since", {0: 9})):
        monkeypatch.setattr(admin, name, answer(found))
    monkeypatch.setattr(admin, "topic_settings", answer({"retention.ms": "60000"}))
    landed = Cut({"orders": Position(1, {0: 4})})
    said = _records_behind(settings, "orders", landed)
    assert said == "5 records, ALARM: at any time retention may delete what has not landed"
    assert set(asked) == {"prod.orders-v2"}
