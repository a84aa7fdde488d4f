"""Modules, folders and names in code that the pages about the design name exist, so that a reader finds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root
from support.our_packages import PACKAGE, SAMPLES

pytestmark = pytest.mark.unit

ROOT = project_root()
PAGES = ("docs/architecture.md", "docs/glossary.md", "docs/invariants.md", "CONTRIBUTING.md", "README.md")
_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:[\w-]+/)*\w+\.py")
_FOLDER = re.compile(r"\w+(?:/\w+)+/?|\w+/")
_DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+")
_SHORT = re.compile(r"\.[a-z_]+")
_NO_NAMES = {"tests/unit/X/test_Y.py", "**/Y.py", "_Y.py", "_name.py", "__init__.py", ".venv", ".jars", ".anabranch"}
"""Patterns of names, what every package has, and what is in no checkout; with the next ones, which are of homes."""
_OF_HOMES = ("lake/", "control", "index/", "secrets/http", "build/")


def named_in(line: str) -> Iterator[tuple[str, list[Path], list[str]]]:
    """What a line names in backquotes: the text, the places where it may be meant to be, and the names in its code.

    A module may be named by the folder of what stands before it in the line: ``serve/read_plan.py``,
    ``table_snapshots.py``; a package by its dot: ``lake.files``, ``.log``.
    """
    folders = list[Path]()
    for text in _QUOTED.findall(line):
        path, _, names = text.partition(": ")
        if path in _NO_NAMES or (path.startswith(_OF_HOMES) and not path.endswith(".py")):
            continue
        inside = [name for name in re.split(r"[,\s]+", names) if name.isidentifier()]
        places = [PACKAGE / path, ROOT / path, SAMPLES / path, *(folder / path for folder in folders)]
        module = _PATH.fullmatch(path)
        first = path.partition(".")[0]
        if not module and _DOTTED.fullmatch(path) and (first == SAMPLES.name or (PACKAGE / first).is_dir()):
            places, inside = _dotted(path), []
        elif _SHORT.fullmatch(path):
            places, inside = [folder / path.removeprefix(".") for folder in folders], []
        elif not (module or _FOLDER.fullmatch(path)):
            continue
        yield text, places, inside
        if found := next((place for place in places if place.exists()), None):
            folders[:0] = [found, found.parent] if found.is_dir() else [found.parent, found.parent.parent]


def _dotted(name: str) -> list[Path]:
    """A module or a package: those of ``anabranch`` are named without it, ``serve.routes``."""
    place = (SAMPLES.parent if name.startswith(f"{SAMPLES.name}.") else PACKAGE).joinpath(*name.split("."))
    return [place, place.with_suffix(".py")]


def _defined(module: Path) -> set[str]:
    """The names of a module's functions, classes, methods and constants."""
    found = set[str]()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def wrong_in(text: str) -> list[str]:
    wrong = []
    for number, line in enumerate(text.splitlines(), 1):
        for named, places, names in named_in(line):
            found = next((place for place in places if place.exists()), None)
            if found is None:
                wrong.append(f"line {number}: there is no {named}")
            elif names and not set(names) <= _defined(found):
                wrong.append(f"line {number}: {found.relative_to(ROOT)} has no {sorted(set(names) - _defined(found))}")
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_what_the_pages_name_exists(page: str) -> None:
    assert wrong_in((ROOT / page).read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "`serve/no_plan.py`",
        "`serve/read_plan.py`, `no_snapshots.py`",
        "`serve/read_plan.py: pinned_by_nobody`",
        "`compute/nothing`",
        "`serve.no_plan`",
        "`lake.files`, `.nothing`",
        "`tests/unit/test_nothing.py`",
        "`anabranch_samples.nothing`",
        "`demo/nothing.py`",
    ],
)
def test_a_name_of_nothing_is_found(line: str) -> None:
    assert len(wrong_in(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "`serve/read_plan.py: pin`, `table_snapshots.py`",
        "`ingest/landing/decoding/_decode.py`, by `decoding/_validity.py` and then `epochs.py: numbered`",
        "`operate/jobs/rebuild.py`, `certify.py`",
        "`lake.files`, `.log`; `core.engine`; `tests/spark`; `serve.read_plan`",
        "`anabranch_samples.oracle`, `demo/run.py: landing_proofs`; `platform/samples/`",
    ],
)
def test_a_name_of_something_is_not(line: str) -> None:
    assert wrong_in(line) == []


def test_each_way_says_how_many_modules_it_names() -> None:
    """The ways of a record are kept short: whoever adds a module to one sees the number."""
    _, *sections = (ROOT / "docs" / "architecture.md").read_text().split("\n## From ")
    assert len(sections) == 5
    for section in sections:
        rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
        said = re.search(r"^(\d+) modules", section, re.MULTILINE)
        modules = {
            next(place for place in places if place.exists())
            for row in rows
            for text, places, _ in named_in(row)
            if ".py" in text
        }
        assert said is not None
        assert int(said[1]) == len(modules), section.splitlines()[0]
