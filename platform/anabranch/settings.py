"""Settings of one platform: where things are and which ports they listen on.

Every field can be set by an environment variable ``ANABRANCH_<FIELD>`` (``ANABRANCH_KAFKA_PORT=29092``) or
a line of ``anabranch.env`` in the project's folder. Nothing here touches the disk or the network.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from anabranch.errors import BadInput

Port = Annotated[int, Field(ge=1024, le=65535)]
SAFE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def project_root() -> Path:
    """The checkout that this package is installed from (it holds dags/, spark_jobs/ and infra/)."""
    return Path(__file__).resolve().parents[2]


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


Folder = Annotated[Path, AfterValidator(_absolute)]


class Settings(BaseSettings):
    """All settings, validated when made. Times are seconds unless the name says otherwise."""

    model_config = SettingsConfigDict(
        env_prefix="ANABRANCH_", env_file=project_root() / "anabranch.env", extra="forbid", frozen=True
    )

    project: Folder = Field(default_factory=project_root)
    home: Folder = Field(default_factory=lambda: project_root() / ".anabranch")
    """Everything that the platform writes: tables, checkpoints, logs, the broker's and Postgres' data."""
    jars: Folder = Field(default_factory=lambda: project_root() / ".jars")

    bootstrap_servers: str = ""
    """Another Kafka cluster, ``host:port,...``; empty means the embedded broker."""
    kafka_options: dict[str, str] = Field(default_factory=dict)
    """The client's own settings (``security.protocol``, ``sasl.username``, ...), as JSON in the environment."""
    kafka_port: Port = 19092
    kafka_controller_port: Port = 19093
    postgres_port: Port = 15432
    airflow_port: Port = 18080

    spark_master: str = "local[2]"
    spark_driver_memory: str = "2g"
    shuffle_partitions: int = Field(default=2, ge=1)
    """Shuffle partitions of streams and batches; pinned in a stream's checkpoint at its first start."""
    spark_conf: dict[str, str] = Field(default_factory=dict)

    max_offsets_per_trigger: int = Field(default=200_000, ge=1)
    """The most records that one epoch of landing holds."""
    small_commit_rows: int = Field(default=50_000, ge=0)
    """Micro-batches of up to this many input rows are committed through delta-rs, larger ones by Spark."""
    state_limit_mb: int = Field(default=2_000, ge=1)
    """The most state that the stream of one view may keep; beyond it stops, and says so. Half of it is a warning."""
    landing_interval: str = "1 second"
    """How often landing makes an epoch, at most. Most of what a small one costs doesn't depend on its rows."""
    trigger_interval: str = "0 seconds"
    """How often a view's stream looks for news; zero means as soon as the last micro-batch is done."""

    approval_events: int = Field(default=10_000_000, ge=0)
    """A reprocess or repair that reads more events than this waits until a person has approved its plan in Airflow."""

    maintenance_schedule: str = "30 3 * * *"
    """When the DAG maintain runs: a cron expression, in UTC."""
    keep_days: int = Field(default=30, ge=7)
    """How long logs, and the control files of builds and replays that have ended, are kept."""

    reader: str = Field(default="", max_length=200)
    """Who this process reads as, for routes between versions; empty: the user and the machine."""

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
        """One small JSON file per process that `anabranch up` started."""
        return self.home / "run"

    @cached_property
    def brokers(self) -> str:
        return self.bootstrap_servers or f"127.0.0.1:{self.kafka_port}"


def load_settings(**overrides: object) -> Settings:
    """The settings of this process; ``overrides`` win over the environment. Raises SETTINGS_REFUSED."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as refused:
        names = [f"ANABRANCH_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in refused.errors()]
        raise BadInput(
            "SETTINGS_REFUSED",
            "; ".join(names),
            next_step="mend the environment variable, or the line of anabranch.env",
            settings=[e["loc"][0] for e in refused.errors() if e["loc"]],
        ) from None
