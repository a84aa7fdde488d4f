"""What some JUnit files say at the end of a run: which tests failed and why, and the slowest, set-up included."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

SHOWN = 10
LINES_OF_A_REPORT = 40


def _cases(files: Sequence[Path]) -> list[tuple[str, ET.Element]]:
    cases = (case for file in files for case in ET.parse(file).iter("testcase"))  # noqa: S314 - pytest's own files
    return [(f"{case.get('classname')}::{case.get('name')}", case) for case in cases]


def slowest(files: Sequence[Path]) -> list[tuple[float, str]]:
    """Seconds and name of each, the slowest first."""
    found = ((float(case.get("time", 0)), name) for name, case in _cases(files))
    return sorted(found, reverse=True)[:SHOWN]


def failures(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Name and report of each test that failed, or whose set-up or teardown did."""
    return [
        (name, report.text or report.get("message") or "")
        for name, case in _cases(files)
        for report in (*case.iter("failure"), *case.iter("error"))
    ]


def print_failures(files: Sequence[Path]) -> list[str]:
    """Prints the end of each report; gives the tests' names."""
    found = failures(files)
    for name, report in found:
        print(f"FAILED {name}", *report.splitlines()[-LINES_OF_A_REPORT:], "", sep="\n")
    return [name for name, _ in found]


def print_slowest(files: Sequence[Path]) -> None:
    print(f"the {SHOWN} slowest tests:")
    for seconds, name in slowest(files):
        print(f"{seconds:8.1f} s  {name}")
