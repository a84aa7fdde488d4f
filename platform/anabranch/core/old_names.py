"""Keeps imports by old module names working after the packages were regrouped (ADR 0035); a warning gives the new name.

``old_names.json`` maps old module -> new module, and ``old module:old name`` -> new name, all below ``anabranch.``.
A view's fingerprint spells our imports by their old names, so that a definition keeps its fingerprint when its file
switches to the new ones (``views.fingerprint``). If you move a module that view authors import, add it to the file.
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


class Renamed(NamedTuple):
    """``modules``: old -> new. ``names``: ``old module:old name`` -> new name."""

    modules: Mapping[str, str]
    names: Mapping[str, str]


@cache
def renamed() -> Renamed:
    """The table (20 kB), read once."""
    content = json.loads(Path(__file__).with_suffix(".json").read_text())
    return Renamed(content["modules"], content["names"])


@cache
def _first_names() -> Mapping[str, str]:
    return {new: old for old, new in renamed().modules.items()}


def first_name(module: str) -> str:
    """The first name of one of our modules; any other module's name unchanged."""
    if not module.startswith(_ROOT):
        return module
    return _ROOT + _first_names().get(module.removeprefix(_ROOT), module.removeprefix(_ROOT))


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


class _OldLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = _ROOT + renamed().modules[spec.name.removeprefix(_ROOT)]
        _warn(f"{spec.name} was renamed to {new}: import that")
        return _OldModule(spec.name, import_module(new))

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the new module has already been executed, and must not run twice."""


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
    while frame.f_back is not None and (
        frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    place = frame.f_globals.setdefault("__warningregistry__", {})
    # Not a DeprecationWarning: Python hides those for imported files, and all files of views and DAGs are imported.
    warnings.warn_explicit(message, FutureWarning, frame.f_code.co_filename, frame.f_lineno, registry=place)


def keep_old_names() -> None:
    """Called once, by the package itself."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
