"""The order of dependencies is the order of the data: a folder imports those before it, never those behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import anabranch
import pytest

pytestmark = pytest.mark.unit

PACKAGE = Path(anabranch.__file__).parent
FOUNDATION = ("engine_check", "errors", "files", "settings", "spark")
ORDER = (
    "events", "log", "samples", "tables", "landing", "views", "speed", "batch", "reconcile", "serving", "replay",
    "change", "explaining", "control", "maintenance", "doctor", "airflow", "testing", "cli",
)  # fmt: skip
# Beside the order: the sample producer is a client of the log, and nothing of the platform may build on it but the CLI.
ONLY_FOR_CLI = {"samples"}


def _imports(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", _modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    here = file.relative_to(PACKAGE).parts[0]
    if here not in ORDER:
        return
    behind = set(ORDER[ORDER.index(here) + 1 :]) | (ONLY_FOR_CLI - {here} if here != "cli" else set())
    wrong = [
        f"{file.name}:{line} imports {module}"
        for line, module in _imports(file)
        if module.startswith("anabranch.") and module.split(".")[1] in behind
    ]
    assert not wrong


def test_every_folder_has_its_place() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    assert folders <= set(ORDER)


@pytest.mark.parametrize("module", FOUNDATION)
def test_the_foundation_imports_nothing_of_the_house(module: str) -> None:
    wrong = [m for _, m in _imports(PACKAGE / f"{module}.py") if m.startswith("anabranch.")]
    assert set(wrong) <= {f"anabranch.{name}" for name in FOUNDATION}


def test_airflow_is_imported_in_its_own_folder_only() -> None:
    wrong = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in _modules()
        for line, module in _imports(file)
        if module.split(".")[0] == "airflow" and file.relative_to(PACKAGE).parts[0] != "airflow"
    ]
    assert not wrong


def test_platform_shadows_no_module_of_the_standard_library() -> None:
    assert not list(PACKAGE.parent.glob("*.py")), "a .py file in platform/ makes it shadow the standard library's"


def test_rooms_are_small() -> None:
    large = {str(f.relative_to(PACKAGE)): n for f in _modules() if (n := len(f.read_text().splitlines())) > 300}
    assert not large
