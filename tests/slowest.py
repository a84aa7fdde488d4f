"""``python tests/slowest.py FILE ...``: the ten dearest tests in these JUnit files, set-up included."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

SHOWN = 10


def slowest(files: list[Path]) -> list[tuple[float, str]]:
    """Seconds and name of each, the dearest first."""
    cases = (case for file in files for case in ET.parse(file).iter("testcase"))  # noqa: S314 - pytest's own files
    found = ((float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}") for case in cases)
    return sorted(found, reverse=True)[:SHOWN]


def main() -> None:
    files = [path for path in map(Path, sys.argv[1:]) if path.exists()]
    print(f"the {SHOWN} dearest tests:")
    for seconds, name in slowest(files):
        print(f"{seconds:8.1f} s  {name}")


if __name__ == "__main__":
    main()
