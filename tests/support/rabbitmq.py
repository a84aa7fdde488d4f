"""A real RabbitMQ (Debian's) as processes of the test, on loopback, with ports and a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pika
import psutil
import pytest
from pika.exceptions import AMQPError

from support.processes import eventually

PROGRAMS: Final = Path("/usr/lib/rabbitmq/bin")
"""Debian's own wrappers in front of these ask for the system user rabbitmq."""
LOOPBACK: Final = "-kernel inet_dist_use_interface {127,0,0,1}"


@dataclass
class RabbitMQ:
    """Use ``started``. ``user`` may do everything."""

    folder: Path
    port: int
    epmd_port: int
    dist_port: int
    user: str
    password: str
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of it is in the home of the user, or listens beyond loopback."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": LOOPBACK,
            "RABBITMQ_CTL_ERL_ARGS": LOOPBACK,
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
        }

    def start(self) -> None:
        """Start the node, and wait until it takes connections; its data stay from start to start."""
        with (self.folder / "out.log").open("ab") as log:
            node = subprocess.Popen([PROGRAMS / "rabbitmq-server"], env=self.environment, stdout=log, stderr=log)
        self._processes.append(node)
        eventually(self._answers, 60)

    def kill(self) -> None:
        """SIGKILL the node, and everything that it has started."""
        node = psutil.Process(self._processes[-1].pid)
        for process in [*node.children(recursive=True), node]:
            process.kill()
        self._processes.pop().wait()

    def control(self, *words: str) -> str:
        """What ``rabbitmqctl`` says."""
        command = [str(PROGRAMS / "rabbitmqctl"), "--quiet", *words]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout

    def connect(self) -> pika.BlockingConnection:
        login = pika.PlainCredentials(self.user, self.password)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, credentials=login))

    def waiting(self, queue: str) -> int:
        """Messages that nobody has taken yet."""
        with self.connect() as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except AMQPError:
            assert self._processes[-1].poll() is None, (self.folder / "out.log").read_text()[-2_000:]
            return False
        return True


@contextmanager
def started(folder: Path, free_port: Callable[[], int], user: str, password: str) -> Iterator[RabbitMQ]:
    """Skips where it isn't installed and can't be (infra/rabbitmq.sh)."""
    if not (PROGRAMS / "rabbitmq-server").exists() or (epmd := shutil.which("epmd")) is None:
        pytest.skip("no RabbitMQ here: see infra/rabbitmq.sh")
    rabbit = RabbitMQ(folder, free_port(), free_port(), free_port(), user, password)
    (folder / "rabbitmq.conf").write_text(f"default_user = {user}\ndefault_pass = {password}\n")
    (folder / "plugins").write_text("[].")
    # A node would start one of its own, which outlives it.
    names = subprocess.Popen([epmd], env=rabbit.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        rabbit.start()
        yield rabbit
    finally:
        if rabbit._processes:
            rabbit.kill()
        names.kill()
        names.wait()
