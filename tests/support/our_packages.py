"""Both packages of this repository and their modules, for tests that read what all of our code says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anabranch
import anabranch_samples

PACKAGE: Final = Path(anabranch.__file__).parent
SAMPLES: Final = Path(anabranch_samples.__file__).parent
PACKAGES: Final = (PACKAGE, SAMPLES)
TEMPLATE: Final = PACKAGE / "apps" / "template"
"""What `anabranch init` copies: files of projects, not modules."""


def modules(*packages: Path) -> dict[str, Path]:
    """The files of modules by their full names, ``anabranch.serve.routes``; a door's is that of its package."""
    return {
        ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for package in packages or PACKAGES
        for file in sorted(package.rglob("*.py"))
        if TEMPLATE not in file.parents
    }


def inside(file: Path) -> str:
    """Where a file lies in its package: ``serve/routes.py``."""
    return str(file.relative_to(next(package for package in PACKAGES if package in file.parents)))
