"""The dearest tests of some JUnit files, set-up included."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

SHOWN = 10


def slowest(files: Sequence[Path]) -> list[tuple[float, str]]:
    """Seconds and name of each, the dearest first."""
    cases = (case for file in files for case in ET.parse(file).iter("testcase"))  # noqa: S314 - pytest's own files
    found = ((float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}") for case in cases)
    return sorted(found, reverse=True)[:SHOWN]


def print_slowest(files: Sequence[Path]) -> None:
    print(f"the {SHOWN} dearest tests:")
    for seconds, name in slowest(files):
        print(f"{seconds:8.1f} s  {name}")
