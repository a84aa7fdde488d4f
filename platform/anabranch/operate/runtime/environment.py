"""Passes the settings as environment variables, so that all processes of a platform have the same ones."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pydantic import SecretStr

from anabranch.core.settings import Settings
from anabranch.operate.runtime._loopback import no_proxy


def environment(settings: Settings) -> dict[str, str]:
    """Returns the variables with which a process loads the same settings, finds our programs and listens on loopback
    only.

    They include secrets: pass them only to our own processes; never print or store them.
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
