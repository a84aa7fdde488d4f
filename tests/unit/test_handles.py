"""A function that works on a version of a view takes its handle, not the values that the handle has (ADR 49)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from support.our_packages import inside, modules

pytestmark = pytest.mark.unit
MAY = {
    "lake.layout.speed_table",  # for files of users that import it
    "lake.layout.batch_table",
    "operate.runtime.late_status.late_missing",  # of a view without a version, too
    "apps.web._dirty_job._answer",  # a version that can't be is an answer there
    "apps.web._files.verdict",  # an address: the values are its parts
    "views.model.handle.__init__",
}


def parts(function: ast.FunctionDef) -> set[str]:
    """What it takes of a handle, by the types of its parameters."""
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    given = {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in every}
    found = {given[name] for name in given if given[name] in ("View", "Sources")}
    if given.get("view", given.get("name")) == "str" and given.get("version") == "int":
        found.add("version")
    return found if "settings" in given else set()


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for file in modules().values():
        module = inside(file).removesuffix(".py").replace("/", ".")
        yield from (
            (f"{module}.{node.name}", node)
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.FunctionDef)
        )


def test_no_function_takes_what_a_handle_has() -> None:
    assert {name for name, node in functions() if parts(node) in ({"version"}, {"View", "Sources"})} == MAY
