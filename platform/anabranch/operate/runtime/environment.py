"""Passes the settings as environment variables, so that all processes of a platform have the same ones."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pydantic import SecretStr

from anabranch.core.settings import Settings
from anabranch.operate.runtime._loopback import no_proxy
from anabranch.operate.runtime._part_needs import DIRTY_DAYS as DIRTY_DAYS
from anabranch.operate.runtime._part_needs import from_shell, without_other_logins


def environment(settings: Settings) -> dict[str, str]:
    """Returns the variables with which a process loads the same settings, finds our programs and listens on loopback
    only.

    They include all secrets of the settings: they are for the supervisor, and for commands that a person would call.
    Never print or store them. A part gets ``part_environment``.
    """
    secrets = {name: value.get_secret_value() for name, value in settings if isinstance(value, SecretStr)}
    values = {
        f"ANABRANCH_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in {**settings.model_dump(mode="json", exclude_none=True), **secrets}.items()
    }
    binaries = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    unset = {f"ANABRANCH_{name.upper()}": "" for name, value in settings if value is None}
    return (
        values
        | unset
        | no_proxy()
        | {
            "PATH": path if path.split(os.pathsep)[0] == binaries else binaries + os.pathsep + path,
            "PYTHONUNBUFFERED": "1",
            # By default, Spark's driver and its UI bind to every interface.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
    )


def part_environment(settings: Settings, part: str) -> dict[str, str]:
    """Returns the whole environment of a part, as `_part_needs` declares it: what it needs of this process'
    environment, and the settings, with the logins that it uses and no other one."""
    mine = settings.model_copy(update=without_other_logins(part))
    return from_shell(part, os.environ, settings.pass_env) | environment(mine)
