"""Airflow's four components as services: one process each, on Postgres, listening on loopback only."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from anabranch.core.airflow_settings import airflow_address, passwords_file
from anabranch.core.settings import Settings
from anabranch.operate.runtime._loopback import open_here
from anabranch.operate.runtime._part_needs import AIRFLOW_SECRETS, NEEDS
from anabranch.operate.runtime._postgres_server import dsn
from anabranch.operate.runtime._service import Restart, Service
from anabranch.operate.runtime.environment import part_environment
from anabranch.operate.runtime.secret_files import airflow_passwords, exact_file, fernet_key, secret, write_exact

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
MIGRATION = "airflow-migrate"
DAG_BUNDLE: dict[str, Any] = {
    "name": "dags-folder",
    "classpath": "anabranch.apps.airflow.dag_bundle.ProjectBundle",
    "kwargs": {},
}
"""Airflow's name for the folder of DAGs, so that what its database says of them stays."""
MIGRATED_TABLE = "anabranch_migrated"
"""Our own table in Airflow's database. It records which version of Airflow last migrated the database."""

_WORKER = "airflow worker -- LocalExecutor"


def constants() -> dict[str, str]:
    """Airflow's settings that are the same in every deployment (docker-compose.yml has them, too)."""
    return {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        # Set explicitly: an inherited environment variable could allow access without a login.
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__API__EXPOSE_CONFIG": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # Our bundle notices what the DAG files are made from; a file that has changed itself Airflow notices. This is
        # for DAGs that depend on something else.
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([DAG_BUNDLE]),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__API__WORKERS": "1",
        # Until then, tasks of a killed scheduler count as running, and no other run of their view starts. Airflow's
        # defaults are 300 s each.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__DAG_PROCESSOR__PRINT_STATS_INTERVAL": "3600",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "GX_ANALYTICS_ENABLED": "false",
    }


def airflow_home(settings: Settings) -> Path:
    """Airflow's own folder: its generated configuration and its task logs."""
    return settings.home / "airflow"


def airflow_environment(settings: Settings, part: str) -> dict[str, str]:
    """The environment of a process of Airflow's. What a scheduler gets every task and Spark job has, too: tasks run in
    forks of it. So it holds none of the secrets that we have made for Airflow, only where to read those that it needs.
    """
    airflow_passwords(settings)
    users = {"admin": "admin", **settings.airflow_logins}
    spark = {"conn_type": "spark", "host": settings.spark_master, "extra": {"deploy-mode": "client"}}
    return (
        part_environment(settings, part)
        | constants()
        | {
            "AIRFLOW_HOME": str(airflow_home(settings)),
            "AIRFLOW__CORE__DAGS_FOLDER": str(settings.project / "dags"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in users.items()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords_file(settings)),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": airflow_address(settings) + "/execution/",
            "AIRFLOW__API__BASE_URL": airflow_address(settings),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(settings.airflow_port),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(airflow_home(settings) / "logs"),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        }
        | {f"{name}_CMD": shlex.join(["cat", str(exact_file(settings, name))]) for name in NEEDS[part].airflow_secrets}
    )


def airflow_secrets(settings: Settings) -> dict[str, str]:
    """The secrets that we have made for Airflow, by the variable that would set each."""
    connection = dsn(settings).removeprefix("postgresql://")
    made = (
        fernet_key(settings),
        secret(settings, "airflow_api"),
        secret(settings, "airflow_jwt"),
        "postgresql+psycopg://" + connection,
        "postgresql+asyncpg://" + connection,
    )
    return dict(zip(AIRFLOW_SECRETS, made, strict=True))


def airflow_parts(settings: Settings) -> tuple[Service, ...]:
    """The database migration (once per Airflow version), then the components. The scheduler starts when the API server
    answers: a task that starts before that fails its first try."""
    migration = Service(
        **_common(settings, MIGRATION, ("db", "migrate")),
        restart=Restart.ONCE,
        depends_on=("postgres",),
        needed=lambda: not _migrated(settings),
        finish=lambda: _note_migrated(settings),
    )

    def component(
        name: str, health: str, *command: str, ports: dict[str, int] | None = None, after: str = MIGRATION
    ) -> Service:
        return Service(
            **_common(settings, f"airflow-{name}", (name, *command)),
            depends_on=(after,),
            ready=lambda lived: _healthy(settings, health, lived),
            ports=ports or {},
        )

    return (
        migration,
        component("api-server", "metadatabase", ports={"ANABRANCH_AIRFLOW_PORT": settings.airflow_port}),
        replace(
            component("scheduler", "scheduler", "--skip-serve-logs", after="airflow-api-server"),
            unhealthy_reason=Workers().lost,
        ),
        component("dag-processor", "dag_processor"),
        # Its own way to stop a child ends in a wait of 10 s for sockets that the child has already closed.
        replace(component("triggerer", "triggerer", "--skip-serve-logs"), children_first=True),
    )


def _common(settings: Settings, name: str, command: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": name,
        "command": (str(Path(sys.executable).parent / "airflow"), *command),
        "cwd": settings.project,
        "log": settings.logs / f"{name}.log",
        "env": airflow_environment(settings, name),
        "prepare": lambda: _prepare(settings),
    }


def _prepare(settings: Settings) -> None:
    airflow_home(settings).mkdir(parents=True, exist_ok=True)
    for name, text in airflow_secrets(settings).items():
        write_exact(exact_file(settings, name), text)


def _healthy(settings: Settings, component: str, lived: float) -> bool:
    """Whether the API server reports ``component`` as healthy, with a heartbeat within the last ``lived`` seconds.

    An older heartbeat is from an earlier process, which Airflow reports as healthy for another 30 s. The start time is
    computed from now, because the clock may have been set since.
    """
    started = time.time() - lived
    try:
        with open_here(airflow_address(settings) + "/api/v2/monitor/health", 5) as answer:
            health = json.load(answer)[component]
    except (OSError, ValueError, KeyError):
        return False
    heartbeat = health.get(f"latest_{component}_heartbeat")
    return health["status"] == "healthy" and (
        heartbeat is None or datetime.fromisoformat(heartbeat).timestamp() >= started
    )


def _migrated(settings: Settings) -> bool:
    """Whether this Airflow version has already migrated the database. Airflow's own check takes seconds."""
    import psycopg

    with psycopg.connect(dsn(settings), connect_timeout=5) as connection:
        try:
            rows = connection.execute(f"SELECT version FROM {MIGRATED_TABLE}").fetchall()  # noqa: S608  # a constant
        except psycopg.errors.UndefinedTable:
            return False
    return rows == [(version("apache-airflow"),)]


def _note_migrated(settings: Settings) -> None:
    import psycopg

    with psycopg.connect(dsn(settings), connect_timeout=5) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {MIGRATED_TABLE} (version text)")
        connection.execute(f"DELETE FROM {MIGRATED_TABLE}")  # noqa: S608  # a constant
        connection.execute(f"INSERT INTO {MIGRATED_TABLE} VALUES (%s)", [version("apache-airflow")])  # noqa: S608


class Workers:
    """Remembers the workers of one scheduler's LocalExecutor, to detect those that were killed. A worker never ends by
    itself.

    The workers take tasks from one queue, and a waiting worker holds the queue's lock. If it is killed then, the lock
    is never released: the scheduler looks healthy, but no task starts any more.
    """

    def __init__(self) -> None:
        self._scheduler, self._known = 0, frozenset[int]()

    def lost(self, scheduler: int) -> str:
        """Returns why the scheduler with this pid is unhealthy; "" if it isn't."""
        known = self._known if scheduler == self._scheduler else frozenset()
        now = _workers_of(scheduler)
        self._scheduler, self._known = scheduler, known | now
        gone = known - now
        return f"worker {min(gone)} was killed and may have held the lock of the task queue" if gone else ""


def _workers_of(scheduler: int) -> frozenset[int]:
    found = set[int]()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(scheduler).children():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if " ".join(child.cmdline()).startswith(_WORKER):
                    found.add(child.pid)
    return frozenset(found)
