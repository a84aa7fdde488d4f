"""Declare views and load the view modules of a project.

The decorator only records a declaration: importing a view module does no work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.contracts.model.declarations import Declarations, load_module
from anabranch.contracts.model.topics import Sources, Topics
from anabranch.core.errors import BadDefinition, BadInput, root_cause
from anabranch.core.project_folder import view_files
from anabranch.core.settings import Settings
from anabranch.views._fingerprint import fingerprint
from anabranch.views._purity import check_python
from anabranch.views._shared_columns import clash_of_columns
from anabranch.views._sql_query import SqlQuery, origin_of, query_of
from anabranch.views.definition_registry import is_registered, write_definition
from anabranch.views.function_source import display_path, read
from anabranch.views.model.definition import Origin, Refresh, View, definition_error, duration, names
from anabranch.views.model.handle import ViewHandle
from anabranch.views.sql_file import read_sql_file

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
    sql: str | None = None,
) -> Callable[[Callable[..., Any]], View]:
    """Decorator that declares a view version and turns the function into a View, which documents the parameters.

    ``sql``: the view's query. The function then has no code: its parameters are what the query calls the events.
    """

    def declare(function: Callable[..., Any]) -> View:
        if sql is not None:
            function = query_of(function, sql, name, version)
        source = read(function)
        origin = function.origin if isinstance(function, SqlQuery) else origin_of(function)
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
    """Collects the views that are declared inside this block."""
    found: list[View] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


@dataclass(frozen=True, slots=True)
class Registry:
    """All view versions of a project, ordered by name and version. ``unread``: for each file that can't be loaded, by
    path, the error; what such a file declares is unknown."""

    views: Sequence[View] = field(default_factory=tuple)
    declarations: Declarations = field(default_factory=Declarations)
    unread: Mapping[str, Exception] = field(default_factory=dict, hash=False)

    def __iter__(self) -> Iterator[View]:
        return iter(self.views)

    def get(self, name: str, version: int | None = None) -> View:
        """One version of a view (None: the newest). Raises BadInput VIEW_UNKNOWN, which lists the registered ones."""
        found = [v for v in self.views if v.name == name and version in (None, v.version)]
        if not found:
            known = ", ".join(f"{v.name} v{v.version}" for v in self.views) or "none"
            wanted = name if version is None else f"{name} v{version}"
            files = "".join(f"; {path} can't be read: {root_cause(error)}" for path, error in self.unread.items())
            raise BadInput(
                "VIEW_UNKNOWN", f"no view {wanted!r} is registered{files}", next_step=f"registered views: {known}"
            )
        return max(found, key=lambda v: v.version)

    def newest(self, name: str) -> View:
        return self.get(name)

    def topic(self, view: View) -> Sources:
        """The topic or topics that carry the events of ``view``."""
        return sources_of(view, self.declarations)

    def handle(self, settings: Settings, view: View) -> ViewHandle:
        """``view`` in this home."""
        return ViewHandle(settings, view, self.topic(view))

    def register(self, spark: SparkSession, settings: Settings, views: Iterable[View] | None = None) -> None:
        """Checks new definitions and persists each one under its version. Called at every start of a writer.

        Raises BadDefinition (see ``check``); Conflict DEFINITION_CHANGED when another definition is registered under
        the version; what ``register_upcasters`` raises for the contracts that a view reads. A registered definition is
        checked again only when an event type that it reads has a newer contract, and for events from before 1970 if a
        topic may have them; otherwise this takes milliseconds. A crash in between leaves some views registered; the
        next call registers the rest.
        """
        from anabranch.views.check import check, check_times
        from anabranch.views.upcaster_registry import register_upcasters

        for view in self.views if views is None else views:
            topics = sources_of(view, self.declarations)
            register_upcasters(spark, settings, topics, view.events)
            contract_versions = {name: topics.newest(name).version for name in view.events}
            if not is_registered(settings, view, contract_versions):
                check(view, spark, self.declarations)
                write_definition(settings, view, contract_versions)
            else:
                check_times(view, spark, topics)


def load_views(folder: Path, declarations: Declarations) -> Registry:
    """Loads every view of the modules and ``.sql`` files in ``folder`` (``spark_jobs/views``). Raises the error of the
    first file that can't be loaded."""
    registry = readable_views(folder, declarations)
    for error in registry.unread.values():
        raise error
    return registry


def readable_views(folder: Path, declarations: Declarations) -> Registry:
    """As ``load_views``, but skips files that can't be loaded, so that one broken file doesn't stop other views."""
    found: dict[tuple[str, int], View] = {}
    unread: dict[str, Exception] = {}
    for path in view_files(folder):
        try:
            known = dict(found)
            for view in views_in(path):
                if (view.name, view.version) in known:
                    raise definition_error(
                        "VIEW_TWICE", view, f"it is also declared in {known[view.name, view.version].origin}"
                    )
                sources_of(view, declarations)
                known[view.name, view.version] = view
        except Exception as error:  # a module may raise anything
            unread[str(path)] = error
        else:
            found = known
    return Registry(tuple(found[key] for key in sorted(found)), declarations, unread)


def sources_of(view: View, declarations: Declarations) -> Sources:
    """The topic, or topics in the order of events, that carry the events of ``view``. Raises BadDefinition
    VIEW_EVENTS, also if landing's columns of two topics can't be read together."""
    try:
        topics = tuple({t.name: t for t in map(declarations.topic_of, view.events)}.values())
    except BadInput as error:
        raise definition_error("VIEW_EVENTS", view, error.what, next_step=error.next_step) from None
    if len(topics) == 1:
        return topics[0]
    if clash := clash_of_columns(Topics(topics)):
        raise definition_error(
            "VIEW_EVENTS",
            view,
            clash,
            next_step="give one of the two event types, or the field in its contract, another name; or write two views",
        )
    return Topics(topics)


def views_in(path: Path, *, reload: bool = False) -> Sequence[View]:
    """The views of a module, or the one of a ``.sql`` file. A module is imported once per process, unless ``reload`` is
    set; its views are cached in the module itself."""
    if path.suffix == ".sql":
        return (_in_sql_file(path),)
    with collecting() as found:
        module = load_module(path, reload=reload)
    if found:
        from pyspark import cloudpickle

        # Python UDF workers can't import this module by name, so its functions are pickled by value.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        vars(module)["__views__"] = tuple(found)
    views: tuple[View, ...] = vars(module).get("__views__", ())
    return views


def _in_sql_file(path: Path) -> View:
    found = read_sql_file(path)
    origin = Origin(display_path(found.path), found.line)
    name, version = found.arguments["name"], found.arguments["version"]
    query = SqlQuery(name, version, origin, found.path, found.text, found.first_line, found.tables)
    return view(**found.arguments)(query)
