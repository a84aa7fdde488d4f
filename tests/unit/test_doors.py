"""Front doors (ADR 43): what a package offers is in its ``__all__``, and other packages import nothing else of it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from anabranch.core.old_names import full_name, renamed
from anabranch.core.project_folder import project_root
from support.our_packages import PACKAGES as OURS
from support.our_packages import TEMPLATE, modules

pytestmark = pytest.mark.unit

ROOT = project_root()
MOST = 15
HEAVY = ("pyspark", "airflow", "great_expectations", "hypothesis")
"""What no door may load; it takes seconds, or isn't installed."""


SHARED = {"anabranch._lazy_exports"}
"""What the doors of our other distribution are made of as well."""

FILES = modules()
PACKAGES = sorted(module for module, file in FILES.items() if file.name == "__init__.py")
OUTSIDE = sorted(
    file
    for folder in (ROOT / "dags", ROOT / "spark_jobs", ROOT / "benchmarks", TEMPLATE)
    for file in folder.rglob("*.py")
)


def _door(package: str) -> ModuleType:
    if package.startswith(("anabranch.apps.airflow", "anabranch.apps.web")):
        pytest.importorskip("airflow")
    return import_module(package)


@cache
def _offered(package: str) -> frozenset[str]:
    """``__all__``, read from the source."""
    for node in ast.parse(FILES[package].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def breaches(source: str, package: str) -> Iterator[tuple[int, str]]:
    """The imports in a file of ``package`` ("" for one outside) that don't go through a door: line and reason."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in FILES:
                    yield from ((node.lineno, why) for why in _past_the_door(full, package))
                elif node.module in PACKAGES:
                    if alias.name not in _offered(node.module) and node.module != package:
                        yield node.lineno, f"{node.module} doesn't offer {alias.name}"
                else:
                    yield from ((node.lineno, why) for why in _past_the_door(node.module, package))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    yield from ((node.lineno, why) for why in _past_the_door(alias.name, package))


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in {package.name for package in OURS}


def _past_the_door(module: str, package: str) -> Iterator[str]:
    if module in PACKAGES:  # a door itself
        return
    owner, _, name = module.rpartition(".")
    if f"{package}.".startswith(f"{owner}."):  # its own package, or a sub-package of it
        return
    if module in SHARED and _is_ours(package):
        return
    if name.startswith("_"):
        yield f"{module} is private"
    elif owner not in PACKAGES or name not in _offered(owner):
        yield f"{owner} doesn't offer {name}"


def test_every_folder_with_modules_has_a_door() -> None:
    folders = {module if file.name == "__init__.py" else module.rpartition(".")[0] for module, file in FILES.items()}
    assert folders == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_door_says_what_it_offers(package: str) -> None:
    """At most 15 names, all explained in a docstring of some ten lines that speaks of no module that isn't there."""
    told = ast.get_docstring(ast.parse(FILES[package].read_text())) or ""
    modules = {module.rpartition(".")[2] for module in FILES if module.rpartition(".")[0] == package}
    offered = _offered(package)
    assert told
    assert len(told.splitlines()) <= 20
    assert len(offered) <= MOST
    assert {name for name in modules - set(offered) - {"__main__"} if not name.startswith("_")} <= _sub(package)
    words = set(re.findall(r"`(\w+)", told))
    assert {name for name in offered & modules if name not in words} == set(), "modules that aren't explained"
    assert {word for word in words if word.startswith("_") and word not in modules} - {"__main__"} == set()


def _sub(package: str) -> set[str]:
    return {other.rpartition(".")[2] for other in PACKAGES if other.rpartition(".")[0] == package}


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_at_the_door_is_there(package: str) -> None:
    """A module is a module, another name is not: no module that is loaded later takes the place of a function."""
    door = _door(package)
    assert set(getattr(door, "__all__", ())) == _offered(package) <= set(dir(door))
    for name in sorted(_offered(package)):
        found = getattr(door, name)
        assert isinstance(found, ModuleType) == (f"{package}.{name}" in FILES), name
        assert getattr(door, name) is found
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_ours'"):
        _ = door.nothing_of_ours


def test_opening_the_doors_loads_no_engine() -> None:
    opened = [package for package in PACKAGES if package != "anabranch"]
    program = f"import sys, {', '.join(opened)}; print([name for name in {HEAVY!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.parametrize("module", FILES)
def test_other_packages_are_entered_by_their_doors(module: str) -> None:
    package = module if module in PACKAGES else module.rpartition(".")[0]
    assert list(breaches(FILES[module].read_text(), package)) == []


@pytest.mark.parametrize("file", OUTSIDE, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_of_people_and_benchmarks_use_the_doors(file: Path) -> None:
    assert list(breaches(file.read_text(), "")) == []


@pytest.mark.parametrize(
    ("source", "package", "reason"),
    [
        ("from anabranch.serve._reading import Reading", "anabranch.certify", "anabranch.serve._reading is private"),
        ("from anabranch.serve import _reading", "", "anabranch.serve._reading is private"),
        ("import anabranch.serve._reading", "", "anabranch.serve._reading is private"),
        ("def f():\n    from anabranch.core.engine import _settings_check", "anabranch.core", "is private"),
        ("from anabranch.lake import append", "anabranch.serve", "anabranch.lake doesn't offer append"),
        ("from anabranch.serve.reading import Reading", "", "anabranch.serve doesn't offer reading"),
        ("from anabranch.serve import _reading", "anabranch_samples", "anabranch.serve._reading is private"),
        ("from anabranch_samples import _bad_bytes", "", "anabranch_samples._bad_bytes is private"),
        ("from anabranch._lazy_exports import lazy_exports", "", "anabranch._lazy_exports is private"),
    ],
)
def test_a_breach_is_found(source: str, package: str, reason: str) -> None:
    assert [why for _, why in breaches(source, package) if reason in why]


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("from anabranch.serve import Reading, routes", "anabranch.certify"),
        ("from anabranch.serve.routes import Route", "anabranch.change"),
        ("from anabranch.views._purity import check_python", "anabranch.views.saved_searches"),
        ("import anabranch.serve", ""),
        ("from anabranch import read", ""),
        ("from anabranch_samples.flights import flight_events", ""),
        ("from anabranch._lazy_exports import lazy_exports", "anabranch_samples"),
    ],
)
def test_what_a_door_offers_is_no_breach(source: str, package: str) -> None:
    assert list(breaches(source, package)) == []


@pytest.mark.parametrize(("name", "target"), sorted(renamed().doors.items()))
def test_a_name_that_a_door_offered_earlier_still_works(name: str, target: str) -> None:
    package, _, earlier = name.partition(":")
    module, _, now = target.partition(":")
    door = import_module(f"anabranch.{package}")
    there = full_name(module)
    with pytest.warns(
        FutureWarning, match=rf"anabranch\.{package}\.{earlier} has moved: from {re.escape(there)} import {now}"
    ):
        found = getattr(door, earlier)
    assert found is getattr(import_module(there), now)
