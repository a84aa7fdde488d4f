"""Lists the views and versions to show: those that are declared, and those that the lake has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from anabranch.apps.airflow.static_views import Declared, declared_views
from anabranch.core.project_folder import view_files
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.serve.served_versions import served_versions, served_views


@dataclass(frozen=True, slots=True)
class KnownView:
    """``versions``: newest first. ``declared``: those that the project's source declares."""

    name: str
    versions: tuple[int, ...]
    declared: Mapping[int, Declared] = field(hash=False)


def known_views(settings: Settings) -> dict[str, KnownView]:
    """Returns all views by name. Runs no author's code: declarations are read from the source."""
    declared = _declared(settings.views_folder)
    names = {*declared, *(name for name in served_views(settings) if SAFE_NAME.fullmatch(name))}
    return {name: _known(settings, name, declared.get(name, ())) for name in sorted(names)}


def known_view(settings: Settings, name: str) -> KnownView | None:
    """Returns the view of this name, which may be any text; None if there is none."""
    return known_views(settings).get(name)


def _known(settings: Settings, name: str, declared: tuple[Declared, ...] | tuple[()]) -> KnownView:
    by_version = {each.version: each for each in declared}
    versions = {*by_version, *served_versions(settings, name)}
    return KnownView(name, tuple(sorted(versions, reverse=True)), by_version)


def _declared(folder: Path) -> dict[str, tuple[Declared, ...]]:
    files = tuple((path.name, stat.st_mtime_ns, stat.st_size) for path in view_files(folder) for stat in [path.stat()])
    return _read(folder, files)


@lru_cache(maxsize=8)
def _read(folder: Path, files: tuple[tuple[str, int, int], ...]) -> dict[str, tuple[Declared, ...]]:
    """Cached until a file changes."""
    return {name: tuple(versions) for name, versions in declared_views(folder).items()}
