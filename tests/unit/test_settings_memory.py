"""What the settings cost each process that loads them: each command, each Airflow task, each part of the platform."""

from __future__ import annotations

import subprocess
import sys

import pytest
from anabranch.core.settings import Settings
from pydantic import ValidationError

pytestmark = pytest.mark.unit
MORE = {
    "kafka_user": {"kafka_password": "secret", "bootstrap_servers": "broker:9092"},
    "schema_registry_user": {"schema_registry_password": "secret", "schema_registry_url": "https://registry:8081"},
}
PROGRAM = """
import pathlib, re
import pydantic_settings
def used():  # kB of this process alone
    return int(re.search(r"^Private_Dirty: +(\\d+) kB$", pathlib.Path("/proc/self/smaps_rollup").read_text(), re.M)[1])
before = used()
import anabranch.core.settings
print(used() - before)
"""


def test_they_use_little_memory() -> None:
    """One pattern such as ``^\\w{0,200}$`` is 20 MB and a tenth of a second: it is compiled with 200 copies of all
    letters of Unicode. Give the length apart (``max_length``)."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 12_000, "kB"


@pytest.mark.parametrize("name", ["kafka_user", "schema_registry_user"])
def test_a_name_has_200_characters_at_most(name: str) -> None:
    assert getattr(Settings.model_validate({name: "é" * 200, **MORE[name]}), name) == "é" * 200
    with pytest.raises(ValidationError, match="at most 200 characters"):
        Settings.model_validate({name: "é" * 201, **MORE[name]})
