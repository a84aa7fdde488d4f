"""Checks the preconditions of a start: Java, JARs, disk space, ports, certificates, broker."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from anabranch.core.errors import AnabranchError, BadInput, BrokenState, TryAgain
from anabranch.core.home_format import check_home
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.auth import password
from anabranch.lake.layout import restoring
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime.kafka_server import java

JAVA_NEEDED = 17
FREE_BYTES_NEEDED = 3_000_000_000
NOT_STARTED = "nothing was started"


def check_all(settings: Settings, parts: Iterable[Service]) -> None:
    """Raises an error for the first thing that would make a start of ``parts`` fail."""
    parts = tuple(parts)
    check_home(settings.home)
    check_restored(settings)
    check_java(java())
    check_jars(settings)
    check_disk(settings.home, FREE_BYTES_NEEDED)
    for part in parts:
        for variable, port in part.ports.items():
            check_port(part.name, variable, port, part.host)
    check_distinct({variable: port for part in parts for variable, port in part.ports.items()})
    if settings.kafka_user:
        password(settings)
    if settings.kafka_certificate and not settings.bootstrap_servers:
        check_certificate(settings)
    if settings.bootstrap_servers:
        from anabranch.ingest.kafka.admin import existing_topics

        existing_topics(settings)  # raises BROKER_UNREACHABLE


def check_restored(settings: Settings) -> None:
    """Raises BrokenState RESTORE_UNFINISHED while a restore is moving files into this home, or was killed in it."""
    if restoring(settings).exists():
        raise BrokenState(
            "RESTORE_UNFINISHED",
            f"a restore into {settings.home} has not ended",
            state=NOT_STARTED,
            next_step=f"run the same anabranch restore again: it continues. To give it up: rm -r {restoring(settings)}",
        )


def check_java(program: str) -> int:
    """Returns the major version of ``program``. Raises BadInput JAVA_MISSING or JAVA_TOO_OLD."""
    advice = f"install Java {JAVA_NEEDED} or newer, or set JAVA_HOME to one"
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"no Java found: {program} ({error.__class__.__name__})"
        raise BadInput("JAVA_MISSING", reason, state=NOT_STARTED, next_step=advice, program=program) from None
    text = answer.stderr + answer.stdout
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if answer.returncode or not found:
        reason = f"{program} -version prints no version: {text.strip()[:200]}"
        raise BadInput("JAVA_MISSING", reason, state=NOT_STARTED, next_step=advice, program=program)
    major = int(found[2] or 0) if found[1] == "1" else int(found[1])  # Java 8 reports 1.8
    if major < JAVA_NEEDED:
        reason = f"{program} is Java {major}; {JAVA_NEEDED} or newer is needed"
        raise BadInput("JAVA_TOO_OLD", reason, state=NOT_STARTED, next_step=advice, program=program, version=major)
    return major


def check_jars(settings: Settings) -> None:
    for folder in (settings.jars / "spark", settings.jars / "kafka"):
        if not any(folder.glob("*.jar")):
            raise BrokenState("JARS_MISSING", f"no JARs in {folder}", state=NOT_STARTED, next_step="anabranch setup")


def check_disk(folder: Path, needed: int) -> None:
    """Raises TryAgain DISK_FULL if less than ``needed`` bytes are free where ``folder`` is or will be."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise TryAgain(
            "DISK_FULL",
            f"{free / 1e9:.1f} GB are free at {existing}; {needed / 1e9:.1f} GB are needed",
            state=NOT_STARTED,
            next_step="free some space, or set ANABRANCH_HOME to a folder on a larger disk",
            free=free,
            needed=needed,
        )


def check_certificate(settings: Settings) -> None:
    """Raises BadInput KAFKA_CERTIFICATE if a TLS handshake (in memory) shows that clients don't trust the broker."""
    to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        broker, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        broker.load_cert_chain(str(settings.kafka_certificate), password="")
        client.load_verify_locations(str(settings.kafka_ca))
        theirs = broker.wrap_bio(to_broker, to_client, server_side=True)
        ours = client.wrap_bio(to_client, to_broker, server_hostname=settings.kafka_host)
        for side in (ours, theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except (OSError, ValueError) as error:
        raise BadInput(
            "KAFKA_CERTIFICATE",
            f"the broker's certificate doesn't prove that it is {settings.kafka_host}: {error}",
            state=NOT_STARTED,
            next_step="check ANABRANCH_KAFKA_CERTIFICATE (key and certificate), ..._CA and ..._HOST",
            certificate=str(settings.kafka_certificate),
        ) from None


def check_port(part: str, variable: str, port: int, host: str = "127.0.0.1") -> None:
    """Raises TryAgain PORT_IN_USE if ``host``:``port`` or 127.0.0.1:``port`` is taken."""
    for address in dict.fromkeys((host, "127.0.0.1")):
        _check_address(part, variable, port, address)


def _check_address(part: str, variable: str, port: int, host: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do, to allow TIME_WAIT
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # another error is about the address: the part itself says which
                raise _port_in_use(part, variable, port, host) from None


def check_distinct(ports: Mapping[str, int]) -> None:
    """Raises BadInput PORT_TWICE if two settings name the same port."""
    first: dict[int, str] = {}
    for variable, port in ports.items():
        if (other := first.setdefault(port, variable)) != variable:
            raise BadInput(
                "PORT_TWICE",
                f"{other} and {variable} are both {port}",
                state=NOT_STARTED,
                next_step=f"set {variable} to a free port",
                port=port,
            )


def _port_in_use(part: str, variable: str, port: int, host: str) -> AnabranchError:
    pid, holder = _holder(port)
    return TryAgain(
        "PORT_IN_USE",
        f"{part} can't listen on {host}:{port}: the port is used by {holder}",
        state=NOT_STARTED,
        next_step=f"stop that process, or set {variable} to a free port",
        part=part,
        port=port,
        variable=variable,
        pid=pid,
    )


def _holder(port: int) -> tuple[int | None, str]:
    """The process that listens on a port, as far as this user may see it."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.Error:
        connections = []
    for connection in connections:
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
            pid = connection.pid
            if pid and psutil.pid_exists(pid):
                command = " ".join(psutil.Process(pid).cmdline())[:100]
                return pid, f"process {pid} ({command})"
    return None, f"a process that user {os.getuid()} can't see"
