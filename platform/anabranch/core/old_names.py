"""Names that files import since before the packages were regrouped (ADR 0035): they keep working, and a warning names
the new one.

``old_names.json`` holds old module -> new module, and ``old module:old name`` -> new name, all below ``anabranch.``.
A view's fingerprint spells imports of ours by their old names, so that a definition doesn't change when its file takes
the new ones (``views.fingerprint``); whoever moves a module that authors import adds it to the file.
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
    """The table: 20 kB, read once."""
    content = json.loads(Path(__file__).with_suffix(".json").read_text())
    return Renamed(content["modules"], content["names"])


@cache
def _first_names() -> Mapping[str, str]:
    return {new: old for old, new in renamed().modules.items()}


def first_name(module: str) -> str:
    """The name that a module of ours had first; any other module's name as it is."""
    if not module.startswith(_ROOT):
        return module
    return _ROOT + _first_names().get(module.removeprefix(_ROOT), module.removeprefix(_ROOT))


class _OldModule(ModuleType):
    """Stands in for a module by its old name: gives what the new one holds, old names included."""

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
        """The new module has been run; nothing is run twice."""


class _OldNames(MetaPathFinder):
    """Asked first: where a folder of an old name still lies, with byte code in it, Python takes it for a package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT) or fullname.removeprefix(_ROOT) not in renamed().modules:
            return None
        return ModuleSpec(fullname, _OldLoader(), is_package=True)  # so that modules below it are asked for here, too


def _warn(message: str) -> None:
    """At the line that imports: the frames of the import system lie between."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    place = frame.f_globals.setdefault("__warningregistry__", {})
    # Not a DeprecationWarning: Python shows those to nobody whose file is imported, as all files of views and DAGs are.
    warnings.warn_explicit(message, FutureWarning, frame.f_code.co_filename, frame.f_lineno, registry=place)


def keep_old_names() -> None:
    """Called once, by the package itself."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
