"""Keeps imports by old names working after modules were regrouped (ADR 35, 43); a warning gives the new name.

``old_names.json``, all below ``anabranch.``, or in full if it is in another distribution of ours
(``anabranch_samples``): ``modules`` maps old module -> next name, ``merged`` a module that is now part of another ->
that one, and a chain of both is followed to its end; ``names`` maps ``old module:old name`` -> new name; ``doors`` maps
``package:name``, what a package or a module offered earlier -> ``module:name``. If you move a module that people's
files import, add it to the file.

A view's fingerprint spells our modules by their first names, so that a definition keeps its fingerprint when its file
switches to the new ones (``views._fingerprint``).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_ROOT = "anabranch."
_ELSEWHERE = "anabranch_"
"""What the packages of our other distributions begin with; their names are written in full."""
_PASSED = (__file__, str(Path(__file__).parents[1] / "_lazy_exports.py"))
"""Files whose lines don't count as the line that imports."""


class Renamed(NamedTuple):
    """``modules``: old -> newest. ``before``: a name -> the one before it, of the same module. ``names``: ``old
    module:old name`` -> new name. ``doors``: ``package:name`` -> ``module:name``."""

    modules: Mapping[str, str]
    before: Mapping[str, str]
    names: Mapping[str, str]
    doors: Mapping[str, str]


@cache
def renamed() -> Renamed:
    """The table (50 kB), read once."""
    content = json.loads(Path(__file__).with_suffix(".json").read_text())
    step: dict[str, str] = content["modules"] | content["merged"]
    newest = {old: _end(old, step) for old in step}
    before = {new: old for old, new in content["modules"].items()}
    return Renamed(newest, before, content["names"], content["doors"])


def _end(name: str, steps: Mapping[str, str]) -> str:
    while name in steps:
        name = steps[name]
    return name


def first_name(module: str) -> str:
    """The first name of one of our modules; any other module's name unchanged. What was merged into another module
    keeps a first name of its own."""
    if not module.startswith((_ROOT, _ELSEWHERE)):
        return module
    return full_name(_end(module.removeprefix(_ROOT), renamed().before))


def full_name(name: str) -> str:
    """The name to import, of one in the table."""
    return name if name.startswith(_ELSEWHERE) else _ROOT + name


def offered_earlier(package: str, name: str) -> Any:
    """What ``package`` offered as ``name`` before it moved, with a FutureWarning. Raises AttributeError."""
    target = renamed().doors.get(f"{package.removeprefix(_ROOT)}:{name}")
    if target is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, _, now = target.partition(":")
    _warn(f"{package}.{name} has moved: from {full_name(module)} import {now}")
    return getattr(_imported(full_name(module), f"{package}.{name}"), now)


def _imported(new: str, old: str) -> ModuleType:
    """The module ``new``. Raises ModuleNotFoundError, which says what to install for ``old`` if it is in a distribution
    that isn't there."""
    package = new.partition(".")[0]
    try:
        return import_module(new)
    except ModuleNotFoundError as error:
        if error.name != package or not package.startswith(_ELSEWHERE):
            raise
        distribution = package.replace("_", "-")
        what = f"{old} is in {distribution} now, which isn't installed: install its wheel, of the same version"
        raise ModuleNotFoundError(what, name=package) from None


class _OldModule(ModuleType):
    """A module under its old name: returns the attributes of the new one, also by their old names."""

    def __init__(self, name: str, new: ModuleType) -> None:
        super().__init__(name, new.__doc__)
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        old = f"{self.__name__.removeprefix(_ROOT)}:{name}"
        return getattr(self._new, renamed().names.get(old, name))


class _OfferingPackage(ModuleType):
    """A package that offers something under the name of one of its old modules, which mustn't take that name from it:
    an import sets a module as an attribute of its package."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, _OldModule) and name in self.__all__):
            super().__setattr__(name, value)


class _OldLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = full_name(renamed().modules[spec.name.removeprefix(_ROOT)])
        package, _, name = new.rpartition(".")
        if name.startswith("_"):
            _warn(f"{spec.name} was renamed to {new}, which is private: import what {package} offers")
        else:
            _warn(f"{spec.name} was renamed to {new}: import that")
        return _OldModule(spec.name, _imported(new, spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """The new module has already been executed, and must not run twice."""
        parent, _, name = module.__name__.rpartition(".")
        package = sys.modules[parent]
        if name in getattr(package, "__all__", ()):
            package.__class__ = _OfferingPackage


class _OldNames(MetaPathFinder):
    """First in ``sys.meta_path``: otherwise Python takes a leftover folder with byte code for a package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT) or fullname.removeprefix(_ROOT) not in renamed().modules:
            return None
        return ModuleSpec(fullname, _OldLoader(), is_package=True)  # so that submodules are looked up here too


def _warn(message: str) -> None:
    """Warn at the line that imports, skipping the frames of the import system."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename in _PASSED or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    place = frame.f_globals.setdefault("__warningregistry__", {})
    # Not a DeprecationWarning: Python hides those for imported files, and all files of views and DAGs are imported.
    warnings.warn_explicit(message, FutureWarning, frame.f_code.co_filename, frame.f_lineno, registry=place)


def keep_old_names() -> None:
    """Called once, by the package itself."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
