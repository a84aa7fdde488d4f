"""Views of the corpus, each in a file of its own that says what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from anabranch.contracts import load_declarations
from anabranch.contracts.model.declarations import load_module
from anabranch.testing import ProofFailed, prove
from anabranch.views import View
from anabranch.views.registry import collecting

HERE = Path(__file__).parents[1] / "spark" / "testing"
SHOP = load_declarations(HERE / "contracts")


@dataclass(frozen=True)
class Example:
    """One file. ``caught`` and ``says`` are what its mistake is refused with; a right view has neither."""

    path: Path

    @property
    def caught(self) -> set[str]:
        return set(self._said("caught").split("|"))

    @property
    def says(self) -> str:
        return self._said("says")

    def prove(self, keep: Path, **options: Any) -> None:
        """Raises BadDefinition where the file is declared, ProofFailed where it is proven."""
        with collecting() as found:
            module = load_module(self.path)
        (view,) = found or [value for value in vars(module).values() if isinstance(value, View)]
        asked = dict(re.findall(r"(\w+)=(\S+)", self._said("prove")))
        prove(view, declarations=SHOP, keep=keep, oracle=_oracle(module), **{**asked, **options})

    def _said(self, what: str) -> str:
        found = re.search(rf"^# {what}: (.*)$", self.path.read_text(), re.MULTILINE)
        return found[1] if found else ""


def _oracle(module: ModuleType) -> Any:
    return getattr(module, "oracle", None)


def examples(folder: str) -> dict[str, Example]:
    return {path.stem: Example(path) for path in sorted((HERE / folder).glob("[a-z]*.py"))}


__all__ = ["SHOP", "Example", "ProofFailed", "examples"]
