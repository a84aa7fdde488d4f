"""Whoever meets a code finds it in the runbook; whoever reads of a test in the promises finds it in ``tests``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import pytest
from support.our_packages import PACKAGE, PACKAGES

pytestmark = pytest.mark.unit

ROOT = PACKAGE.parent.parent
RUNBOOK = ROOT / "docs" / "runbook.md"
PROMISES = ROOT / "docs" / "promises.md"

Trees = Mapping[str, ast.Module]
"""By the name of the module."""

_CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
_QUOTED = re.compile(r"`([^`\n]+)`")
_PASSED_ON = re.compile(
    r"code|(self|error|conflict|found)\.code(\.replace\(.*)?|error\.code\.replace\(.* else error\.code"
)
"""What hands a code on that is written elsewhere."""


def codes_in(*packages: Path) -> tuple[dict[str, str], list[str]]:
    """Each code with the place where it is written, and the places of those that can't be read from the source.

    A code is the first argument of an error or a finding, what is given for a parameter ``code``, the first of a tuple
    that says what is wrong and what to do as well, or a constant beside a class that carries one.
    """
    trees = _trees(*packages)
    classes, constants = _classes(trees), _constants(trees)
    own = {module: _own_takers(tree) for module, tree in trees.items()}
    found, unseen = dict[str, str](), list[str]()
    for module, tree in trees.items():
        takers = {**dict.fromkeys(classes, 0), **_takers(tree, own), **own[module]}
        assigned = _assigned(tree)
        for node in ast.walk(tree):
            for written in _written(node, takers):
                codes = set(_read(written, assigned, constants))
                where = f"{module.replace('.', '/')}.py:{written.lineno}"
                found.update({code: where for code in codes if code not in found})
                if not codes and not _PASSED_ON.fullmatch(ast.unparse(written)):
                    unseen.append(f"{where}: {ast.unparse(written)}")
    return found, unseen


def silent_in(*packages: Path) -> list[str]:
    """The places of errors that don't say what to do next."""
    trees = _trees(*packages)
    errors = _classes(trees) - {"Finding"}
    return [
        f"{module.replace('.', '/')}.py:{node.lineno}"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and {ast.unparse(part).rpartition(".")[2] for part in ast.walk(node.func)} & errors
        and {keyword.arg for keyword in node.keywords}.isdisjoint({"next_step", None})
    ]


def _trees(*packages: Path) -> dict[str, ast.Module]:
    return {
        ".".join(file.relative_to(package.parent).with_suffix("").parts): ast.parse(file.read_text())
        for package in packages
        for file in sorted(package.rglob("*.py"))
    }


def _written(node: ast.AST, takers: Mapping[str, int]) -> Iterator[ast.expr]:
    """The expressions of codes that stand in ``node`` itself."""
    if isinstance(node, ast.Tuple) and len(node.elts) == 3 and _is_code(node.elts[0]):
        yield node.elts[0]
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
        yield from (arg for arg in node.exc.args[:1] if _is_code(arg))  # whatever the class is called
    elif isinstance(node, ast.Module) and any(map(_carries, node.body)):
        yield from (value for each in node.body if _is_code(value := getattr(each, "value", None)))
    elif isinstance(node, ast.Call):
        place = takers.get(ast.unparse(node.func))
        yield from node.args[place : place + 1] if place is not None else ()
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "code" and place is not None)


def _is_code(node: object) -> TypeGuard[ast.Constant]:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and "_" in value and _CODE.fullmatch(value) is not None


def _carries(node: ast.stmt) -> bool:
    fields = node.body if isinstance(node, ast.ClassDef) else []
    return any(isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "code" for each in fields)


def _read(written: ast.expr, assigned: Mapping[str, ast.expr], constants: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(assigned.get(written.id, written) if isinstance(written, ast.Name) else written):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
            yield node.value
        elif isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in constants:
            yield constants[ast.unparse(node)]


def _classes(trees: Trees) -> set[str]:
    """AnabranchError, what comes from it, and findings."""
    defined = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {"AnabranchError", "Finding"}
    while more := {node.name for node in defined if {ast.unparse(base) for base in node.bases} & known} - known:
        known |= more
    return known


def _takers(tree: ast.Module, own: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The functions that a module imports and that have a parameter ``code``, by name, with its place."""
    found = dict[str, int]()
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            name, source = alias.asname or alias.name, str(getattr(node, "module", ""))
            there = own.get(source, {})
            found |= {name: there[alias.name]} if alias.name in there else {}
            found |= {f"{name}.{taker}": place for taker, place in own.get(f"{source}.{alias.name}", {}).items()}
    return found


def _own_takers(tree: ast.Module) -> dict[str, int]:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    places = {node.name: [arg.arg for arg in node.args.args] for node in functions}
    return {name: args.index("code") for name, args in places.items() if "code" in args}


def _constants(trees: Trees) -> dict[str, str]:
    """Names that stand for a code, as they are written behind an import: ``finding.FAILS``."""
    found = {}
    for module, tree in trees.items():
        for node in tree.body:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            if _is_code(value):
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
                found[f"{module.rpartition('.')[2]}.{ast.unparse(target)}"] = str(value.value)
    return found


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """``code = "A" if ... else "B"``, also as a part of ``code, what = "A", "..."``."""
    found = dict[str, ast.expr]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, given in pairs:
            if ast.unparse(name) == "code":
                known = found.get("code")
                found["code"] = given if known is None else ast.Tuple([known, given])
    return found


@pytest.fixture(scope="module")
def codes() -> tuple[dict[str, str], list[str]]:
    return codes_in(*PACKAGES)


def quoted(page: Path) -> list[str]:
    return _QUOTED.findall(page.read_text())


def named_codes(page: Path) -> set[str]:
    """Codes of a page: what stands in backquotes by itself, in capitals. Settings are no codes."""
    return {text for text in quoted(page) if _CODE.fullmatch(text) and not text.startswith("ANABRANCH_")}


def test_every_code_is_in_the_runbook(codes: tuple[dict[str, str], list[str]]) -> None:
    named = named_codes(RUNBOOK)
    missing = [f"{code}, raised in {where}" for code, where in sorted(codes[0].items()) if code not in named]
    assert not missing, "docs/runbook.md doesn't say what to do:\n  " + "\n  ".join(missing)


def test_the_runbook_names_no_code_that_is_never_raised(codes: tuple[dict[str, str], list[str]]) -> None:
    assert sorted(named_codes(RUNBOOK) - codes[0].keys()) == []


def test_every_code_can_be_read_from_the_source(codes: tuple[dict[str, str], list[str]]) -> None:
    """Write a code as a literal, or hand it on by a parameter ``code``: else nobody knows that it is in no runbook."""
    assert codes[1] == []


def test_every_error_says_what_to_do_next() -> None:
    assert silent_in(*PACKAGES) == []


@pytest.mark.parametrize(
    "raised", ['BadInput("A_B", "what")', '(TryAgain if away else BadInput)("A_B", "what", state="as it was")']
)
def test_an_error_without_a_next_step_is_found(raised: str, tmp_path: Path) -> None:
    package = tmp_path / "anabranch"
    package.mkdir()
    (package / "seeded.py").write_text(f"class BadInput(AnabranchError): ...\nraise {raised}\n")
    assert silent_in(package) == ["anabranch/seeded.py:2"]


@pytest.mark.parametrize(
    "line",
    [
        'raise BadInput("SEEDED_CODE", "what")',
        'raise errors.BadInput("SEEDED_CODE", "what")',
        'raise Late("SEEDED_CODE", "what")',
        'yield Finding("SEEDED_CODE", "where", "what", "next")',
        'raise (TryAgain if away else BrokenState)("SEEDED_CODE", "what")',
        'raise wrong("field", "SEEDED_CODE", "what")',
        'return "SEEDED_CODE", "what", "next"',
    ],
)
def test_a_code_is_seen_however_it_is_raised(line: str, tmp_path: Path) -> None:
    package = tmp_path / "anabranch"
    package.mkdir()
    seeded = "class BadInput(AnabranchError): ...\nclass Late(BadInput): ...\n"
    seeded += f"def wrong(field, code, what):\n    return BadInput(code, what)\ndef seeded():\n    {line}\n"
    (package / "seeded.py").write_text(seeded)
    assert codes_in(package) == ({"SEEDED_CODE": "anabranch/seeded.py:6"}, [])


def test_a_code_that_is_made_up_while_it_runs_is_told(tmp_path: Path) -> None:
    package = tmp_path / "anabranch"
    package.mkdir()
    (package / "seeded.py").write_text('raise AnabranchError(f"{kind}_WRONG", "what")')
    assert codes_in(package) == ({}, ["anabranch/seeded.py:1: f'{kind}_WRONG'"])


def test_the_promises_name_tests_that_there_are() -> None:
    wrong = []
    for text in quoted(PROMISES):
        path, _, name = text.partition("::")
        if path.startswith("test_") and not name:
            wrong.append(f"{text}: name its file, too")
        elif path.startswith("tests/"):
            if not (ROOT / path).exists():
                wrong.append(f"{text}: there is no {path}")
            elif name and name not in _tests_of(ROOT / path):
                wrong.append(f"{text}: {path} has no such test")
    assert wrong == []


def test_every_promise_has_a_guard() -> None:
    _, *sections = PROMISES.read_text().split("\n## ")
    unguarded = [section.splitlines()[0] for section in sections if "`tests/" not in section]
    assert unguarded == []


def _tests_of(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
