"""Front doors that load lazily: a package offers modules and names, each imported when it is first used (ADR 43).

So ``import anabranch.certify`` loads no Great Expectations, and packages may import each other's doors in any order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


def lazy_exports(
    package: str, names: Mapping[str, Sequence[str]] = _NONE
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the ``__getattr__`` and the ``__dir__`` of a package (PEP 562). ``names`` maps a module or sub-package to
    what the door offers of it; every other name in ``__all__`` is a module. A name that the door offered earlier still
    works, with a FutureWarning. For any other name ``__getattr__`` raises AttributeError."""
    home = {name: module for module, listed in names.items() for name in listed}

    def offered() -> Sequence[str]:
        """Empty while the package itself is being imported."""
        listed: Sequence[str] = vars(sys.modules[package]).get("__all__", ())
        return listed

    def load(name: str) -> Any:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in offered():
            return import_module(f"{package}.{name}")
        if not name.startswith("_"):
            from anabranch.core.old_names import offered_earlier

            return offered_earlier(package, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted({*vars(sys.modules[package]), *offered()})
