"""What ``anabranch init`` copies is the same platform as ours: versions, containers, and the bounds of its packages."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.contracts import load_declarations
from anabranch.contracts.sending import RecordCheck
from anabranch.core.project_folder import project_root
from packaging.requirements import Requirement

pytestmark = pytest.mark.unit
ROOT = project_root()
TEMPLATE = Path(anabranch.__file__).parent / "apps" / "template"
OURS = {
    "name: PROJECT_NAME": "name: anabranch",
    "image: PROJECT_NAME:": "image: anabranch:",
    "python -m anabranch.operate.jobs.landing": "python spark_jobs/landing.py",
    "python -m anabranch.operate.jobs.speed": "python spark_jobs/speed.py",
    "with the same settings.": "with the same settings (tests/unit/test_compose.py compares).",
}


def test_its_compose_file_is_ours_but_for_names_and_programs() -> None:
    text = (TEMPLATE / "docker-compose.yml.template").read_text()
    for theirs, ours in OURS.items():
        assert theirs in text
        text = text.replace(theirs, ours)
    assert text == (ROOT / "docker-compose.yml").read_text()


def test_its_image_begins_as_ours() -> None:
    theirs, ours = (
        re.search(r"^ARG AIRFLOW_VERSION.*?^WORKDIR /project$", path.read_text(), re.DOTALL | re.MULTILINE)
        for path in (TEMPLATE / "infra" / "Dockerfile", ROOT / "infra" / "Dockerfile")
    )
    assert theirs is not None
    assert ours is not None
    assert theirs[0] == ours[0]


def project_of(folder: str) -> dict[str, Any]:
    """What a pyproject.toml says of its distribution."""
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def test_the_samples_are_of_the_same_version_and_ask_for_it() -> None:
    ours, samples = project_of("."), project_of("platform/samples")
    assert samples["version"] == ours["version"]
    assert samples["requires-python"] == ours["requires-python"]
    (package,) = [need for need in map(Requirement, samples["dependencies"]) if need.name == "anabranch"]
    assert str(package.specifier) == f"=={ours['version']}"
    assert package.extras <= ours["optional-dependencies"].keys()
    polars = [text for text in samples["dependencies"] if text.startswith("polars")]
    assert polars == ours["optional-dependencies"]["polars"], "one bound for both"


def test_each_package_that_we_need_has_bounds_and_the_lock_keeps_them() -> None:
    project, samples = project_of("."), project_of("platform/samples")
    given = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    given += samples["dependencies"]
    needed = [need for need in map(Requirement, given) if need.name != "anabranch"]
    locked = dict(
        re.findall(r"^([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==([^\s\\;]+)", (ROOT / "requirements.lock").read_text(), re.M)
    )
    versions = {name.lower().replace("_", "-"): version for name, version in locked.items()}
    for need in needed:
        operators = {one.operator for one in need.specifier}
        assert operators == {"=="} or {">=", "<"} <= operators, f"{need} has no lower and upper bound"
        assert need.specifier.contains(versions[need.name]), f"{need}, but the lock has {versions[need.name]}"


def test_its_sample_events_are_whole_and_can_be_sent_or_loaded() -> None:
    """As landing takes them: nothing is added to a line that is loaded from a file."""
    topic = load_declarations(TEMPLATE / "spark_jobs" / "contracts").topic("orders")
    check, lines = RecordCheck(topic), (TEMPLATE / "data" / "orders.jsonl").read_bytes().splitlines()
    assert len(lines) > 100
    # An event that names no contract follows the newest.
    events = [{"dataschema": topic.newest("order.placed").uri, **json.loads(line)} for line in lines]
    assert {check.problem(line, event) for line, event in zip(lines, events, strict=True)} == {None}
