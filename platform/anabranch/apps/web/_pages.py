"""The read-only pages. They change nothing, and wait for nothing but a few small files."""

from __future__ import annotations

import logging
import secrets
import threading
from datetime import UTC, date, datetime
from functools import cache, partial
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import Response

from anabranch.apps.airflow.static_views import reprocess_dag
from anabranch.apps.web import _charts
from anabranch.apps.web._access import MIGRATE, REPLAY, MayEdit, may_start
from anabranch.apps.web._airflow_runs import Airflow, DagRun, rebuilds
from anabranch.apps.web._checked_runs import SHOWN as RUNS_SHOWN
from anabranch.apps.web._checked_runs import checked_runs
from anabranch.apps.web._days import Day, Halves, days_of
from anabranch.apps.web._dirty_days import Lookup, LookupResult
from anabranch.apps.web._failures import Failure, attempt
from anabranch.apps.web._known_views import KnownView, known_view
from anabranch.apps.web._migrations import SHOWN, migration_page
from anabranch.apps.web._overview import StatusReader, VersionStatus, overview, with_dirty
from anabranch.apps.web._partition_history import PartitionHistory, history_of
from anabranch.apps.web._render import page
from anabranch.apps.web._replays import replays_of
from anabranch.change.request_fields import DATE
from anabranch.change.run_names import recorded_run
from anabranch.change.run_progress import work_of
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef
from anabranch.views.retired_versions import retired_versions

router = APIRouter()
WHOLE = "whole"
"""Used instead of a day for a kappa view, which has no partitions."""
LOOKUP = Lookup()
log = logging.getLogger(__name__)
_HELD = 10
"""How many red days of a version are listed below its calendar, the last ones."""


def platform() -> Settings:
    return load_settings()


@cache
def warm() -> threading.Thread:
    """Opens every table once in the background, so that the first request needn't, which takes seconds for many
    tables."""

    def look() -> None:
        try:
            overview(platform(), LOOKUP)
        except Exception as error:  # the page itself will show the error
            log.warning("the page can't be warmed up: %s", error)

    thread = threading.Thread(target=look, name="anabranch-warm", daemon=True)
    thread.start()
    return thread


def of_view(view: str, settings: Annotated[Settings, Depends(platform)]) -> KnownView:
    """Returns the view in the address. Raises HTTP 404 if there is none."""
    known = known_view(settings, view)
    if known is None:
        raise HTTPException(404, "there is no view of this name")
    return known


Platform = Annotated[Settings, Depends(platform)]
View = Annotated[KnownView, Depends(of_view)]
Runs = list[DagRun] | Failure


@router.get("/")
def all_views(request: Request, settings: Platform) -> Response:
    return page(request, "overview.html", overview=overview(settings, LOOKUP))


@router.get("/views/{view}")
def one_view(request: Request, known: View, settings: Platform, year: int | None = None) -> Response:
    look = StatusReader(settings)
    (view,) = with_dirty(settings, LOOKUP, (look.view(known),))
    days = {each.version: _days(settings, look, each) for each in view.versions}
    years = sorted({day.year for found in days.values() if not isinstance(found, Failure) for day in found if day})
    shown = year if year in years else max(years, default=None)
    calendars = {
        version: found if isinstance(found, Failure) else _Calendar(found, shown) for version, found in days.items()
    }
    work = {n: [text for _, text in work_of(VersionRef(settings, known.name, n))] for n in known.versions}
    return page(
        request, "view.html", view=view, calendars=calendars, years=years, year=shown, failures=look.failures,
        work=work, run_of=partial(recorded_run, settings),
    )  # fmt: skip


def reprocess_dag_of(known: View, version: int, settings: Platform) -> str:
    """The DAG that people start for this version. Where the route can't be read, no version counts as retired, as for
    the DAGs themselves."""
    found = attempt(f"which versions of {known.name} are retired", lambda: retired_versions(settings, known.name))
    retired = frozenset[int]() if isinstance(found, Failure) else found
    left = [each for each in known.declared.values() if each.version not in retired]
    return reprocess_dag(known.name, left, version)


ReprocessDag = Annotated[str, Depends(reprocess_dag_of)]


async def runs_of_day(known: View, version: int, partition: str, airflow: Airflow, dag: ReprocessDag) -> Runs | None:
    """Returns the runs that rebuild, or have just rebuilt, this day; None if no DAG does."""
    day = _day(partition)
    if version not in known.declared or day is None:
        return None
    return await airflow.recent_runs(dag, rebuilds(version, day))


async def replay_runs(known: View, airflow: Airflow) -> Runs:
    return await airflow.recent_runs(REPLAY, lambda conf: conf.get("view") == known.name)


@router.get("/views/{view}/v{version}/{partition}")
def one_partition(
    request: Request,
    known: View,
    settings: Platform,
    version: int,
    partition: str,
    user: GetUserDep,
    runs: Annotated[Runs | None, Depends(runs_of_day)],
    reprocess: ReprocessDag,
) -> Response:
    if version not in known.versions:
        raise HTTPException(404, f"{known.name} has no such version")
    day = _day(partition)
    (view,) = with_dirty(settings, LOOKUP, (StatusReader(settings).view(known),))
    standing = next((each for each in view.versions if each.version == version), None)
    if standing is None:
        raise HTTPException(404, f"{known.name} v{version} is retired, and its tables are deleted")
    story = history_of(VersionRef(settings, known.name, version), day, standing.dirty)
    if story is None:
        raise HTTPException(404, f"nothing is known of this partition of {known.name} v{version}")
    dag = reprocess if version in known.declared and day and not standing.retired else ""
    return page(
        request, "partition.html", view=view, standing=standing, story=story, partition=partition, line=_line(story),
        run_of=partial(recorded_run, settings), runs=runs, dag=dag, allowed=bool(dag) and may_start(user, dag),
        once=f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
    )  # fmt: skip


@router.get("/views/{view}/migration")
def migration(
    request: Request,
    known: View,
    settings: Platform,
    user: GetUserDep,
    allowed: Annotated[bool, Depends(MayEdit(MIGRATE))],
) -> Response:
    moving = attempt(f"route of {known.name}", lambda: migration_page(settings, known.name))
    return page(
        request, "migration.html", known=known, moving=moving, user=user.get_name(), allowed=allowed, dag=MIGRATE,
        shown=SHOWN, run_of=partial(recorded_run, settings),
    )  # fmt: skip


@router.get("/views/{view}/replays")
def replays(
    request: Request,
    known: View,
    settings: Platform,
    allowed: Annotated[bool, Depends(MayEdit(REPLAY))],
    runs: Annotated[Runs, Depends(replay_runs)],
) -> Response:
    ordered = [each.version for each in StatusReader(settings).view(known).versions]
    each = {version: replays_of(VersionRef(settings, known.name, version)) for version in ordered}
    return page(
        request,
        "replays.html",
        known=known,
        replays=each,
        runs=runs,
        allowed=allowed,
        dag=REPLAY,
        run_of=partial(recorded_run, settings),
    )


@router.get("/checks")
def all_checks(request: Request, settings: Platform) -> Response:
    return page(request, "checks.html", view="", runs=checked_runs(settings), shown=RUNS_SHOWN)


@router.get("/views/{view}/checks")
def checks(request: Request, known: View, settings: Platform) -> Response:
    return page(request, "checks.html", view=known.name, runs=checked_runs(settings, known.name), shown=RUNS_SHOWN)


class _Calendar:
    """A version's part of the page: one year, the state of a view without days, the number of days per state, and the
    last red days."""

    def __init__(self, days: dict[date | None, Day], year: int | None) -> None:
        self.whole = days.get(None)
        self.year = _charts.year_of(year, days) if year is not None else None
        in_year = [known.state for day, known in days.items() if day is not None and day.year == year]
        self.counts = {state: in_year.count(state) for state in in_year}
        held = [(day, known) for day, known in days.items() if day and day.year == year and known.state == "held"]
        self.held = held[-_HELD:]


def _days(settings: Settings, look: StatusReader, standing: VersionStatus) -> dict[date | None, Day] | Failure:
    ref = VersionRef(settings, standing.view, standing.version)
    looked = standing.dirty.found if standing.dirty else LookupResult()
    marks = look.marks.get((ref.name, ref.version), {})
    return attempt(str(ref), lambda: days_of(ref, Halves.of(ref), marks, looked))


def _day(text: str) -> date | None:
    """Parses a day; None for a whole view. Raises HTTP 404 for any other text."""
    if text == WHOLE:
        return None
    try:
        if not DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise HTTPException(404, "there is no such day") from None


def _line(story: PartitionHistory) -> tuple[_charts.Axis, list[_charts.Dot]]:
    """The timeline of certificates and publications."""
    judged = [(each.certificate.created, "equal" if each.certificate.equal else "held") for each in story.judged]
    moments = [*judged, *((each.at, "publication") for each in story.publications)]
    axis = _charts.Axis.over((moment for moment, _ in moments), datetime.now(UTC))
    said = {"equal": "paths equal", "held": "paths differ", "publication": "published"}
    return axis, [_charts.Dot(axis.x(at), kind, f"{at:%Y-%m-%d %H:%M:%S}: {said[kind]}") for at, kind in moments]
