"""The views that a project registers. The decorator only writes down; importing a module of views does no work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import BadDefinition, BadInput
from anabranch.events.declarations import load_module
from anabranch.settings import SAFE_NAME
from anabranch.views.definition import Origin, View, duration, names
from anabranch.views.fingerprint import fingerprint

if TYPE_CHECKING:
    from anabranch.events import Declarations

_COLLECTED: ContextVar[list[View] | None] = ContextVar("anabranch_views", default=None)


def view(
    *,
    name: str,
    version: int,
    events: str | Sequence[str],
    key: str | Sequence[str],
    partition_by: str | None = None,
    lookback: str | timedelta = "0 hours",
    lookahead: str | timedelta = "0 hours",
) -> Callable[[Callable[..., Any]], View]:
    """Declare a version of a view; the function becomes the View. See View for what the parameters mean."""

    def declare(function: Callable[..., Any]) -> View:
        origin = Origin(inspect.getsourcefile(function) or "<unknown>", function.__code__.co_firstlineno)
        if not SAFE_NAME.fullmatch(name) or version < 1:
            raise BadDefinition(
                "VIEW_NAME", f"{origin}: {name!r} version {version}: use a-z, 0-9 and _, and versions from 1"
            )
        try:
            before, after = duration(lookback), duration(lookahead)
        except ValueError as error:
            raise BadDefinition("VIEW_DURATION", f"{origin}: {name} v{version}: {error}") from None
        declared = View(name, version, names(events), names(key), function, partition_by, before, after, origin)
        declared = View(
            name,
            version,
            names(events),
            names(key),
            function,
            partition_by,
            before,
            after,
            origin,
            fingerprint(declared),
        )
        collected = _COLLECTED.get()
        if collected is not None:
            collected.append(declared)
        return declared

    return declare


@contextmanager
def collecting() -> Iterator[list[View]]:
    """Collect the views that are declared inside of this block."""
    found: list[View] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


@dataclass(frozen=True, slots=True)
class Registry:
    """All versions of all views of a project."""

    views: Sequence[View] = field(default_factory=tuple)

    def __iter__(self) -> Iterator[View]:
        return iter(self.views)

    def get(self, name: str, version: int | None = None) -> View:
        """One version of a view, the newest when ``version`` is None. BadInput VIEW_UNKNOWN names what there is."""
        found = [v for v in self.views if v.name == name and version in (None, v.version)]
        if not found:
            known = ", ".join(f"{v.name} v{v.version}" for v in self.views) or "none"
            wanted = name if version is None else f"{name} v{version}"
            raise BadInput("VIEW_UNKNOWN", f"no view {wanted!r} is registered", next_step=f"there are: {known}")
        return max(found, key=lambda v: v.version)

    def newest(self, name: str) -> View:
        return self.get(name)


def load_views(folder: Path, declarations: Declarations) -> Registry:
    """Every view of the modules in ``folder`` (``spark_jobs/views``), each of whose events one topic carries."""
    found: dict[tuple[str, int], View] = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        for value in vars(load_module(path)).values():
            if not isinstance(value, View) or found.get((value.name, value.version)) is value:
                continue
            if (value.name, value.version) in found:
                raise BadDefinition("VIEW_TWICE", f"{value.origin}: {value.name} v{value.version} is declared twice")
            topics = {declarations.topic_of(event).name for event in value.events}
            if len(topics) != 1:
                raise BadDefinition(
                    "VIEW_TOPICS", f"{value.origin}: {value.name}: events of {sorted(topics)}; a view reads one topic"
                )
            found[value.name, value.version] = value
    return Registry(tuple(found[key] for key in sorted(found)))
