"""Which code a try has killed: one of other code doesn't count any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

import anabranch

from crash.acts import ACTS

_PACKAGE = Path(anabranch.__file__).parent
_EVERY_COMMIT = ("lake", "core.atomic_files", "core.control_objects")


@cache
def code_of(act: str) -> str:
    """A digest of the modules that do the act's commits. Comments and docstrings don't change it."""
    digest = sha256()
    for name in (*ACTS[act].code, *_EVERY_COMMIT):
        for file in _files(name):
            digest.update(f"{file.relative_to(_PACKAGE)}\n{without_docstrings(file.read_text())}\n".encode())
    return digest.hexdigest()[:12]


def without_docstrings(source: str) -> str:
    """What Python runs of a module, as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _files(name: str) -> Iterator[Path]:
    place = _PACKAGE.joinpath(*name.split("."))
    if place.is_dir():
        yield from sorted(place.rglob("*.py"))
    else:
        yield place.with_suffix(".py")
