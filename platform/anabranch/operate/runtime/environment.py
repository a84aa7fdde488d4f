"""Settings as environment variables, so that every process of a platform sees the same ones."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from anabranch.core.settings import Settings
from pydantic import SecretStr


def environment(settings: Settings) -> dict[str, str]:
    """What a process needs to load equal settings, to find our programs, and to listen on loopback only.

    It holds secrets: it is given to processes of ours, and neither shown nor written.
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
        | {
            "PATH": path if path.split(os.pathsep)[0] == binaries else binaries + os.pathsep + path,
            "PYTHONUNBUFFERED": "1",
            # Spark's driver and its UI bind to every interface unless told otherwise.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
    )
