"""Settings of one platform: folders, ports, connections, limits.

Every field can be set by an environment variable ``ANABRANCH_<FIELD>`` (``ANABRANCH_KAFKA_PORT=29092``) or
a line of ``anabranch.env`` in the project's folder. Nothing is written or connected to; the home's format is read.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from anabranch.core._setting_types import EnvFile, File, Folder, Host, Port, VariableName, Variables
from anabranch.core._ways_in_settings import WaysIn
from anabranch.core.airflow_settings import Login, Notifier, Role
from anabranch.core.errors import BadInput
from anabranch.core.home_format import check_home
from anabranch.core.project_folder import check_project, current_project, working_folder
from anabranch.core.project_folder import project_root as project_root  # imported from here by most
from anabranch.core.settings_checks import CHECKS

SAFE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_INTERVAL = r"^\d+(\.\d+)? (millisecond|second|minute|hour)s?$"
"""The format of Spark's triggers."""


@cache
def user_at_host() -> str:
    """Return who runs this process, the same for all processes of one user on one machine. A user without a name, as in
    many containers, is uid-NUMBER."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # what it raises depends on the version of Python
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


class Settings(WaysIn, BaseSettings):
    """All settings, validated on creation. Times are seconds unless the name says otherwise."""

    model_config = SettingsConfigDict(env_prefix="ANABRANCH_", extra="forbid", frozen=True, hide_input_in_errors=True)

    project: Folder = Field(default_factory=lambda: current_project() or working_folder())
    """The folder with dags/, spark_jobs/contracts and spark_jobs/views."""
    home: Folder = Field(default_factory=lambda given: check_project(given["project"]) / ".anabranch")
    """Everything that the platform writes: tables, checkpoints, logs, the data of the broker and of Postgres."""
    jars: Folder = Field(default_factory=lambda given: given["project"] / ".jars")
    load_folder: Folder = Field(default_factory=lambda given: given["project"] / "data")
    """The DAG ``load`` reads local files below this folder only."""
    pass_env: tuple[VariableName, ...] = ()
    """Variables that the project's own code reads (contracts, views, DAGs), as a JSON list: ``["SHOP_*"]``. The
    processes that load this code get them as they are when the platform is started; they get no others."""

    bootstrap_servers: str = ""
    """An external Kafka cluster, ``host:port,...``; empty means the embedded broker."""
    kafka_options: dict[str, str] = Field(default_factory=dict)
    """More client settings (names of librdkafka), as JSON in the environment. Must not hold a secret."""
    kafka_user: str = Field(default="", max_length=200, pattern=r"^[\w.@/+=$:-]*$")
    """The user for the broker, over TLS (SASL_SSL); empty: no login. The password comes from one of the next two."""
    kafka_password: SecretStr = SecretStr("")
    kafka_password_file: File = None
    """A file that holds only the password, without a line break at its end."""
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    kafka_ca: File = None
    """CA certificates (PEM) for the broker's certificate; without a user: TLS without a login."""
    kafka_host: Host = "127.0.0.1"
    """The address that the embedded broker listens on and advertises; beyond loopback only with a login."""
    kafka_certificate: File = None
    """Key and certificate of the embedded broker in one file (PEM): it then accepts TLS with a login only."""
    kafka_port: Port = 19092
    kafka_controller_port: Port = 19093
    postgres_port: Port = 15432
    airflow_port: Port = 18080
    airflow_url: str = Field(default="", pattern=r"^(https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[\w./-]*)?)?$")
    """Where our processes reach Airflow when it runs in another container or on another machine: tasks write the notes
    of their runs there. Empty: the address from Airflow's own settings; for the CLI ``airflow_port`` of this
    machine."""

    schema_registry_url: str = Field(default="", pattern=r"^(https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[\w./-]*)?)?$")
    """The schema registry of topics whose records name their schema by its id (Confluent's wire format)."""
    schema_registry_user: str = Field(default="", max_length=200, pattern=r"^[\w.@/+=$-]*$")
    """The user for the registry; empty: no login. The password comes from one of the next two."""
    schema_registry_password: SecretStr = SecretStr("")
    schema_registry_password_file: File = None
    """A file that holds only the password."""
    schema_registry_ca: File = None
    """CA certificates (PEM) for the registry's certificate, if it isn't signed by a public one."""

    spark_master: str = Field(default="local[2]", pattern=r"^(local(\[(\d+|\*)(,\d+)?\])?|yarn|(spark|k8s)://\S+)$")
    spark_driver_memory: str = Field(default="2g", pattern=r"^[1-9]\d*[kmgtKMGT]$")
    """The heap of each engine's JVM: a number and k, m, g or t."""
    shuffle_partitions: int = Field(default=2, ge=1)
    """Shuffle partitions of streams and batches; a stream's checkpoint keeps the value of its first start."""
    spark_conf: dict[str, str] = Field(default_factory=dict)

    max_offsets_per_trigger: int = Field(default=200_000, ge=1)
    """The maximum number of records in one landing epoch."""
    small_commit_rows: int = Field(default=50_000, ge=0)
    """Micro-batches of up to this many input rows are staged with Arrow in the driver, larger ones by Spark."""
    state_limit_mb: int = Field(default=2_000, ge=1)
    """The maximum state of one view's stream; beyond it the stream stops with an error. Half of it gives a warning."""
    landing_interval: str = Field(default="1 second", pattern=_INTERVAL)
    """The minimum time between two landing epochs. Most of the cost of a small epoch doesn't depend on its rows."""
    landing_seconds_beside_runs: float = Field(default=3.0, ge=0, le=60)
    """The minimum duration of an epoch while an Airflow run rebuilds days: streams run one micro-batch for each epoch,
    and with fewer of them the run gets more of the cores. 0: no difference."""
    hang_seconds: float = Field(default=60.0, ge=1)
    """A busy stream that makes no progress for this long (or longer, see ``core.engine.liveness``) is restarted."""
    trigger_interval: str = Field(default="0 seconds", pattern=_INTERVAL)
    """How often a view's stream polls for new data; zero means as soon as the last micro-batch is done."""

    behind_epochs: int = Field(default=100, ge=1)
    """`anabranch doctor` reports a view's stream that is more epochs behind landing than this. Landing makes at most
    one a second: during a rebuild a stream is about ten behind, after a long stop it catches up within minutes."""

    airflow_logins: dict[Login, Role] = Field(default_factory=dict)
    """Logins of our own Airflow apart from ``admin``, by name with their role, as JSON. `up` makes their passwords."""
    notifiers: list[Notifier] = Field(default_factory=list)
    """Airflow notifiers that are called for each run of ours that fails or is refused, as JSON: their class and its
    arguments. Must not hold a secret."""

    approval_events: int = Field(default=10_000_000, ge=0)
    """A reprocess or repair that reads more events than this waits until a person has approved its plan in Airflow."""

    maintenance_schedule: str = "40 * * * *"
    """When the DAG maintain runs: a cron expression, in UTC. Streams that commit once a second leave thousands of files
    an hour, and each reader opens all of them."""
    keep_days: int = Field(default=30, ge=7)
    """How long logs, and the control files of finished builds and replays, are kept."""

    reader: str = Field(default="", max_length=200)
    """The reader name of this process, for routes between versions; empty: the user and the machine."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then ``anabranch.env`` of the project that the environment names, or of the
        current one."""
        named = os.environ.get("ANABRANCH_PROJECT")
        project = Path(named).expanduser() if named else current_project()
        file = project / "anabranch.env" if project else None
        return init_settings, Variables(settings_cls), EnvFile(settings_cls, env_file=file)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for check in CHECKS:
            check(self)
        return self

    @property
    def contracts_folder(self) -> Path:
        """Where the project declares its topics and their contracts."""
        return self.project / "spark_jobs" / "contracts"

    @property
    def views_folder(self) -> Path:
        """Where the project declares its views."""
        return self.project / "spark_jobs" / "views"

    @property
    def lake(self) -> Path:
        """The root of every Delta table."""
        return self.home / "lake"

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoints"

    @property
    def locks(self) -> Path:
        return self.home / "locks"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """One small JSON file for each process that `anabranch up` started."""
        return self.home / "run"

    @property
    def brokers(self) -> str:
        return self.bootstrap_servers or f"{self.kafka_host}:{self.kafka_port}"


def heap(settings: Settings) -> str:
    """Of each engine's JVM, as it is given to it."""
    return settings.spark_conf.get("spark.driver.memory", settings.spark_driver_memory)


def heap_bytes(settings: Settings) -> int:
    """The same as a number; that of ``spark_driver_memory`` where Spark was told otherwise in words of its own."""
    for text in (heap(settings), settings.spark_driver_memory):
        if found := re.fullmatch(r"(\d+)([kmgt])b?", text.strip().lower()):
            return int(found[1]) << 10 * (1 + "kmgt".index(found[2]))
    raise AssertionError("spark_driver_memory has a pattern")


def load_settings(**overrides: object) -> Settings:
    """The settings of this process; ``overrides`` win over the environment. Raises BadInput SETTINGS_REFUSED, and
    BrokenState FORMAT_NEWER or HOME_UNREADABLE: a newer version has written the home."""
    try:
        settings = Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as refused:
        names = [f"ANABRANCH_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in refused.errors()]
        raise BadInput(
            "SETTINGS_REFUSED",
            "; ".join(names),
            next_step="correct the environment variable, or the line of anabranch.env",
            settings=[e["loc"][0] for e in refused.errors() if e["loc"]],
        ) from None
    except SettingsError as unreadable:  # its text names the field; its cause holds the value, which may be a secret
        raise BadInput("SETTINGS_REFUSED", str(unreadable), next_step="write the value as JSON") from None
    check_home(settings.home)
    return settings
