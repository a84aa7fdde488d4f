"""The demo's second act: repairs late events, deploys a new version, and moves readers to it; the first try fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import date, timedelta
from typing import TYPE_CHECKING, Protocol

from anabranch.apps.airflow.client import Client
from anabranch.certify.certificates import newest_certificates
from anabranch.change.migrate.migration_record import migration_of
from anabranch.core.airflow_settings import airflow_api
from anabranch.core.errors import BrokenState
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime.secret_files import airflow_login
from anabranch.serve.routes import Route, route_history

from anabranch_samples.demo._readers import NAMES, FlightReaders, Readers
from anabranch_samples.demo.change import (
    NEW,
    OLD,
    VIEW,
    caught_up,
    deploy,
    landed_epoch,
    migrate,
    repair,
    send_late,
    wait_for,
    wrong_row,
)

if TYPE_CHECKING:
    from anabranch.core.settings import Settings

LATE = 3
_HALT_AT = 25
_SHOWN = 14


class Voice(Protocol):
    """Prints the demo's output (``Story``)."""

    def step(self, what: str) -> AbstractContextManager[Callable[[str], None]]: ...

    def say(self, text: str = "") -> None: ...

    def quote(self, lines: Sequence[str]) -> None: ...


def second_act(settings: Settings, story: Voice, first: date) -> None:
    """Runs the second act. Raises BrokenState if anything is not as expected. ``first``: the first day of flights."""
    with Client(airflow_api(settings), airflow_login(settings)) as client:
        _late_events(settings, story, client, first + timedelta(days=1))
        _next_version(settings, story)
        with FlightReaders(settings, VIEW) as readers:
            _failing_migration(settings, story, client, readers)
            _successful_migration(settings, story, client)
        _readers(story, readers)


def _late_events(settings: Settings, story: Voice, client: Client, day: date) -> None:
    story.say(f"\n[bold]7. Late events[/]: {LATE} charter flights of {day} are reported now")
    before = landed_epoch(settings)
    with story.step("they land; the streams skip them, because their day is over") as tell:
        send_late(settings, day, LATE)
        wait_for(lambda: landed_epoch(settings) > before and caught_up(settings, OLD, tell), "landing")
    with story.step(f"Airflow repairs exactly the affected days: repair_{VIEW}") as tell:
        run = repair(client, tell)
    story.quote(run.note.splitlines())


def _next_version(settings: Settings, story: Voice) -> None:
    story.say(
        f"\n[bold]8. {VIEW} v{NEW} is deployed[/]: by carrier too, with the longest delay; "
        '"delayed" means over 30 minutes, not 15'
    )
    with story.step("the speed layer detects it, and builds it from history in parallel to v1") as tell:
        deploy(settings)
        wait_for(lambda: caught_up(settings, NEW, tell), f"{VIEW} v{NEW}")


def _failing_migration(settings: Settings, story: Voice, client: Client, readers: Readers) -> None:
    with story.step("Airflow's DAG migrate builds and certifies its days, and compares both versions") as tell:
        run, shown = migrate(client, "1,5,25,50,100", "3 seconds", tell)
    found = newest_certificates(VersionRef(settings, VIEW, NEW))
    story.say(f"   certificates of v{NEW}: {sum(c.equal for c in found.values())} of {len(found)} equal. Approved:")
    story.quote(shown.splitlines()[:_SHOWN])
    with story.step(f"readers move: 1, 5, {_HALT_AT} % ...") as tell:
        wait_for(lambda: _share(settings, tell) >= _HALT_AT, f"{_HALT_AT} %")
        with wrong_row(settings) as row:
            run = client.wait(run, lambda now: tell(now.note))
    story.say(f"   at {_HALT_AT} % one row of v{NEW} was corrupted on purpose: {row}, one minute too much")
    newest = _routes(settings)[-1]
    if run.state != "failed" or dict(newest.shares) != {OLD: 100}:
        raise BrokenState("DEMO_FAULT_PASSED", f"migrate ended as {run.state}: {run.note}", next_step=run.url)
    wait_for(lambda: readers.last.get(OLD, 0) > newest.changed_at.timestamp() + 2, "reads of v1")
    late = max(0.0, readers.last.get(NEW, 0) - newest.changed_at.timestamp())
    story.say(f"   rolled back automatically: {newest.why}; no reader got v{NEW} later than {late:.1f} s after that")


def _successful_migration(settings: Settings, story: Voice, client: Client) -> None:
    story.say("\n[bold]9. The row is fixed[/], and v2 is tried again")
    with story.step("nothing to build; compare, approve, move to 100 %") as tell:
        run, _ = migrate(client, "25,100", "2 seconds", tell)
        run = client.wait(run, lambda now: tell(now.note))
    if run.state != "success":
        raise BrokenState("DEMO_RUN_FAILED", f"migrate ended as {run.state}: {run.note}", next_step=run.url)
    for route in _routes(settings):
        story.say(f"   [dim]{route.number:>2}  {route}  by {route.changed_by}: {route.why}[/]")


def _readers(story: Voice, readers: Readers) -> None:
    reads_text = ", ".join(f"{count:,} of v{version}" for version, count in sorted(readers.reads.items()))
    mark = "[red]✗[/]" if readers.wrong else "[green]✓[/]"
    wrong = f"{len(readers.wrong)} reads were wrong"
    story.say(f"   {mark} {len(NAMES)} readers were reading all the time, {reads_text}; {wrong}")
    if readers.wrong or set(readers.reads) != {OLD, NEW}:
        raise BrokenState("DEMO_READS_WRONG", "; ".join(readers.wrong[:3]) or reads_text, next_step="see them above")


def _share(settings: Settings, tell: Callable[[str], None]) -> int:
    found = migration_of(settings, VIEW)
    tell(str(found[1]) if found else "not begun")
    if found and not found[1].active:
        raise BrokenState("DEMO_RUN_FAILED", f"{found[1]}: {found[0].why}", next_step="see above")
    return found[1].share if found else 0


def _routes(settings: Settings) -> list[Route]:
    return route_history(settings, VIEW)
