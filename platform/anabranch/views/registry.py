"""The views that a project registers. The decorator only writes down; importing a module of views does no work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Declarations, Sources, Topics
from anabranch.contracts.declarations import load_module
from anabranch.core.errors import BadDefinition, BadInput, root_cause
from anabranch.core.settings import Settings
from anabranch.views.definition import Origin, Refresh, View, duration, names
from anabranch.views.definition_errors import definition_error
from anabranch.views.definition_registry import is_registered, write_down
from anabranch.views.fingerprint import fingerprint
from anabranch.views.function_source import read, shown
from anabranch.views.purity import check_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    refresh: Refresh = "state",
    closes: bool = False,
    tables: str | Sequence[str] = (),
) -> Callable[[Callable[..., Any]], View]:
    """Declare a version of a view; the function becomes the View. See View for what the parameters mean."""

    def declare(function: Callable[..., Any]) -> View:
        source = read(function)
        origin = Origin(shown(source.path), function.__code__.co_firstlineno)
        try:
            before, after = duration(lookback), duration(lookahead)
        except ValueError as error:
            raise BadDefinition(
                "VIEW_DURATION",
                f"{origin}: {name} v{version}: {error}",
                file=origin.file,
                definition=origin.line,
                next_step="write a number and a unit, as in '15 minutes' or '1 hour'",
            ) from None
        times = (partition_by, before, after, refresh, closes)
        inputs = (*names(events), *names(tables))
        plain = View(name, version, inputs, names(key), function, *times, names(tables), origin)
        check_python(plain, source)
        declared = replace(plain, fingerprint=fingerprint(plain, source))
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
    """All versions of all views of a project, by name and version. ``unread``: why files can't be read, by path; what
    they declare isn't known."""

    views: Sequence[View] = field(default_factory=tuple)
    declarations: Declarations = field(default_factory=Declarations)
    unread: Mapping[str, Exception] = field(default_factory=dict, hash=False)

    def __iter__(self) -> Iterator[View]:
        return iter(self.views)

    def get(self, name: str, version: int | None = None) -> View:
        """One version of a view, the newest when ``version`` is None. BadInput VIEW_UNKNOWN names what there is."""
        found = [v for v in self.views if v.name == name and version in (None, v.version)]
        if not found:
            known = ", ".join(f"{v.name} v{v.version}" for v in self.views) or "none"
            wanted = name if version is None else f"{name} v{version}"
            files = "".join(f"; {path} can't be read: {root_cause(error)}" for path, error in self.unread.items())
            raise BadInput("VIEW_UNKNOWN", f"no view {wanted!r} is registered{files}", next_step=f"there are: {known}")
        return max(found, key=lambda v: v.version)

    def newest(self, name: str) -> View:
        return self.get(name)

    def topic(self, view: View) -> Sources:
        """The topic (or topics) that carry the events of ``view``."""
        return sources_of(view, self.declarations)

    def register(self, spark: SparkSession, settings: Settings, views: Iterable[View] | None = None) -> None:
        """Check what was never checked, and write each definition down under its version; at every start of a writer.

        Raises BadDefinition (see ``check``), or Conflict DEFINITION_CHANGED where the version stands for another
        definition already; what ``register_upcasters`` raises of the contracts that a view reads. A definition that is
        written down is checked again only when an event type that it reads has a newer contract; else this takes
        milliseconds. A crash in between leaves some views registered; the next call registers the rest.
        """
        from anabranch.views.check import check
        from anabranch.views.upcaster_registry import register_upcasters

        for each in self.views if views is None else views:
            topics = sources_of(each, self.declarations)
            register_upcasters(spark, settings, topics, each.events)
            read_by = {name: topics.newest(name).version for name in each.events}
            if not is_registered(settings, each, read_by):
                check(each, spark, self.declarations)
                write_down(settings, each, read_by)


def load_views(folder: Path, declarations: Declarations) -> Registry:
    """Every view of the modules in ``folder`` (``spark_jobs/views``), whose events topics carry. Raises what the first
    module does that can't be read: for who asks about the project."""
    registry = readable_views(folder, declarations)
    for error in registry.unread.values():
        raise error
    return registry


def readable_views(folder: Path, declarations: Declarations) -> Registry:
    """The same, without the modules that can't be read: for who keeps views up to date, each by itself."""
    found: dict[tuple[str, int], View] = {}
    unread: dict[str, Exception] = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        try:
            known = dict(found)
            for each in _declared_in(path):
                if (each.name, each.version) in known:
                    raise definition_error(
                        "VIEW_TWICE", each, f"it is declared in {known[each.name, each.version].origin} too"
                    )
                sources_of(each, declarations)
                known[each.name, each.version] = each
        except Exception as error:  # a module may raise anything
            unread[str(path)] = error
        else:
            found = known
    return Registry(tuple(found[key] for key in sorted(found)), declarations, unread)


def sources_of(view: View, declarations: Declarations) -> Sources:
    """The topic that carries the events of ``view``, or several, in the order of its events; or BadDefinition."""
    try:
        topics = tuple({t.name: t for t in map(declarations.topic_of, view.events)}.values())
    except BadInput as error:
        raise definition_error("VIEW_EVENTS", view, error.what, next_step=error.next_step) from None
    return topics[0] if len(topics) == 1 else Topics(topics)


def _declared_in(path: Path) -> Sequence[View]:
    """The views of a module; it is imported once per process, and its views are kept beside it."""
    with collecting() as found:
        module = load_module(path)
    if found:
        from pyspark import cloudpickle

        # The workers of a Python UDF can't import this module by its name: its functions travel by value.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        vars(module)["__views__"] = tuple(found)
    views: tuple[View, ...] = vars(module).get("__views__", ())
    return views
