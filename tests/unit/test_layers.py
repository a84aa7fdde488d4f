"""The order of dependencies is the order of the data: a folder imports those before it, never those behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.our_packages import PACKAGE, SAMPLES, inside, modules

pytestmark = pytest.mark.unit

ORDER = (
    "core.text", "core", "core.engine", "contracts.fields", "contracts.formats", "contracts.model", "contracts.sending",
    "contracts", "ingest.kafka", "ingest.http", "ingest.queues", "ingest.statsd", "lake.files", "lake.log",
    "lake.streams", "lake", "ingest.schema_registry", "ingest.landing.table", "ingest.landing.decoding",
    "ingest.landing", "ingest.landing.audit", "ingest.files", "views.model", "views.selection", "views.saved_searches",
    "views", "compute.speed", "compute.batch", "certify", "serve", "change.replay", "change", "change.migrate",
    "operate.explain", "operate.trial", "operate.jobs", "operate.runtime", "operate.setup", "operate.maintenance",
    "operate.backup", "operate.upgrade", "operate.doctor", "testing", "apps.airflow", "apps.web", "apps.cli",
)  # fmt: skip
"""Packages in the order in which data takes them (ADR 0035); what stands in none of them is listed in ``PARENTS``."""
PARENTS = {"", "ingest", "compute", "operate", "apps"}


def _imports(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def _modules() -> list[Path]:
    return list(modules(PACKAGE).values())


def _package_of(module: str) -> str:
    """The package of ORDER that a module below ``anabranch.`` belongs to; "" for one that belongs to none."""
    return max((name for name in ORDER if f"{module}.".startswith(f"{name}.")), key=len, default="")


@pytest.mark.parametrize("file", _modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    here = _package_of(".".join(file.relative_to(PACKAGE).with_suffix("").parts))
    if not here:
        return
    behind = set(ORDER[ORDER.index(here) + 1 :])
    wrong = [
        f"{file.name}:{line} imports {module}"
        for line, module in _imports(file)
        if module.startswith("anabranch.") and _package_of(module.removeprefix("anabranch.")) in behind
    ]
    assert not wrong


@pytest.mark.parametrize("file", _modules(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_the_package_knows_no_sample(file: Path) -> None:
    """Not in a function either: the samples come in by entry points, where they are installed."""
    assert [line for line, module in _imports(file) if module.split(".")[0] == SAMPLES.name] == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """When it is loaded: what a function imports when it is called, and what only types need, is no circle."""
    files = modules()
    graph = {name: sorted({*_loads(file)} & files.keys() - {name}) for name, file in files.items()}
    assert next(_circles(graph), None) is None
    assert next(_circles({"a": ["b"], "b": ["c"], "c": ["b"]}), None) == ["b", "c", "b"]


def _loads(file: Path) -> Iterator[str]:
    """The modules of ours that are loaded with this one."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def _circles(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    done = set[str]()
    for start in graph:
        path, left = [start], [iter(graph[start])]
        while path and start not in done:
            following = next(left[-1], None)
            if following is None:
                done.add(path.pop())
                left.pop()
            elif following in path:
                yield [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                left.append(iter(graph[following]))


def test_every_folder_has_its_place() -> None:
    folders = {".".join(p.relative_to(PACKAGE).parts) for p in (f.parent for f in _modules())}
    folders = {"" if folder == "." else folder for folder in folders}
    assert {folder for folder in folders if not _package_of(folder)} <= PARENTS
    assert {_package_of(folder) for folder in folders} - {""} == set(ORDER)


def test_airflow_is_imported_in_its_own_folder_only() -> None:
    wrong = [
        f"{inside(file)}:{line}"
        for file in modules().values()
        for line, module in _imports(file)
        if module.split(".")[0] == "airflow" and not inside(file).startswith(("apps/airflow/", "apps/web/"))
    ]
    assert not wrong


def test_platform_shadows_no_module_of_the_standard_library() -> None:
    assert not list(PACKAGE.parent.glob("*.py")), "a .py file in platform/ makes it shadow the standard library's"


def test_rooms_are_small() -> None:
    large = {name: n for name, file in modules().items() if (n := len(file.read_text().splitlines())) > 300}
    assert not large
