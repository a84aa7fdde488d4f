"""Which code a try has killed: one of other code doesn't count any more.

It is found, not listed, so that it can't go stale: the modules of ours that an act's function names, and all that those
import, in functions too; of packages that only compute or ask (``COMMITS_NOTHING``), those that touch what is stored.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from hashlib import sha256
from types import CodeType, MappingProxyType, ModuleType
from typing import Any, Final

from support.our_packages import PACKAGE, modules

from crash import acts
from crash.acts import ACTS, Stage

_OURS: Final = modules(PACKAGE)
COMMITS_NOTHING: Final = MappingProxyType({
    "anabranch.contracts": "what is declared, and whether a record is as declared",
    "anabranch.core": "settings, errors, texts, the engine",
    "anabranch.ingest.kafka": "asks the broker",
    "anabranch.ingest.landing.decoding": "computes landing's columns",
    "anabranch.ingest.landing.table": "computes columns, and reads back what landing says of its epochs",
    "anabranch.ingest.schema_registry": "asks the registry",
    "anabranch.operate.runtime": "starts and stops parts; an act has none",
    "anabranch.serve": "reads; who moves or retires readers touches what is stored",
    "anabranch.views": "checks and plans views' functions",
})  # fmt: skip
"""Why a change of such a module leaves the tries as they are: hours of them, for a rule of SQL or a text."""
_STORES: Final = {
    f"anabranch.core.{name}" for name in ("atomic_files", "control_file", "control_objects", "storage")
} | {name for name in _OURS if name.startswith("anabranch.lake.") and name.split(".")[2] not in ("cut", "layout")}
"""The seam to what is stored, and tables."""
_CHANGES: Final = {"write", "writeStream", "unlink", "rmdir", "rmtree", "mkdir", "write_bytes", "write_text"}
"""What changes files without them: Spark's writers, and Python's own names."""


@cache
def code_of(act: str) -> str:
    """A digest of the modules that may do the act's commits. Comments and docstrings don't change it."""
    digest = sha256()
    for name in killed(act):
        digest.update(_code(name))
    return digest.hexdigest()[:12]


@cache
def _code(name: str) -> bytes:
    return f"{name}\n{without_docstrings(_OURS[name].read_text())}\n".encode()


@cache
def _tree(name: str) -> ast.Module:
    return ast.parse(_OURS[name].read_text())


@cache
def killed(act: str) -> list[str]:
    """The modules that may do the act's commits, or decide on them."""
    return sorted(name for name in closure(named_by(ACTS[act].carry_out)) if _touches(name) or not _left_out(name))


def named_by(function: Callable[..., Any]) -> set[str]:
    """The modules that a function of the stage, or another one that it calls there, takes anything of."""
    found, waiting, seen = set[str](), [function.__code__], set[CodeType]()
    while waiting:
        if (code := waiting.pop()) in seen:
            continue
        seen.add(code)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
        for each in dis.get_instructions(code):
            own = (
                inspect.getattr_static(Stage, each.argval, None)
                if each.opname in ("LOAD_ATTR", "LOAD_METHOD")
                else None
            )
            if (called := _function(own)) is not None:
                waiting.append(called.__code__)
            if each.opname == "LOAD_GLOBAL":
                thing = vars(acts).get(each.argval)
                home = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", "")
                found.update({home} & _OURS.keys())
    return found


def _function(own: object) -> Any:
    if isinstance(own, property):
        return own.fget
    return own.func if isinstance(own, cached_property) else own if inspect.isfunction(own) else None


def closure(names: Iterable[str]) -> set[str]:
    """These modules, and all that they import, one through the other."""
    found, waiting = set[str](), list(names)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += imported(name)
    return found


@cache
def imported(name: str) -> frozenset[str]:
    """The modules of ours that one imports, in its functions too, but not for its types only. Front doors offer what
    others define: those are named, not the door."""
    if _is_door(name):
        return frozenset()
    found = set[str]()
    for node in _run(_tree(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module in _OURS:
            found.update(_home(node.module, alias.name) for alias in node.names)
    return frozenset(found & _OURS.keys())


def _home(module: str, name: str) -> str:
    """The module that ``from module import name`` loads last."""
    if f"{module}.{name}" in _OURS:
        return f"{module}.{name}"
    return _offered(module).get(name, module) if _is_door(module) else module


def _is_door(name: str) -> bool:
    return _OURS[name].name == "__init__.py"


@cache
def _offered(door: str) -> dict[str, str]:
    """Where a front door has its names from: for the eyes of tools it imports them."""
    nodes = [node for node in ast.walk(_tree(door)) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in nodes for alias in node.names}


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """All but what only types need, and expressions: nothing is imported in one."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not (for_types or isinstance(node, ast.expr)):
            yield node
            yield from _run(node)


@cache
def _touches(name: str) -> bool:
    """Whether the module itself reads or changes what is stored."""
    changes = any(isinstance(node, ast.Attribute) and node.attr in _CHANGES for node in ast.walk(_tree(name)))
    return name in _STORES or changes or not _STORES.isdisjoint(imported(name))


def _left_out(name: str) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in COMMITS_NOTHING)


def without_docstrings(source: str) -> str:
    """What Python runs of a module, as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
