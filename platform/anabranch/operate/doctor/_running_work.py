"""Checks that work in progress is still running: each version's stream, and the run of each migration."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from anabranch.change.migrate.run_heartbeat import last_heartbeat
from anabranch.lake import latest_commit
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.operate.runtime import process_registry
from anabranch.serve.routes import ACTIVE
from anabranch.views.retired_versions import retired_versions

UNSEEN = 15 * 60
"""Seconds without a heartbeat after which a migration counts as abandoned: its run sends one every 15 seconds."""
RUNNING = 60 * 60
"""Seconds after landing's newest commit during which the platform counts as running, however it was started."""


@each("speed")
def streams(context: Context, state: TableState) -> Iterator[Finding]:
    """STREAM_BEHIND: a version is more epochs behind landing than ``ANABRANCH_BEHIND_EPOCHS``. Only for a stream that
    should run: its version is declared and not retired, and the platform runs or was stopped within the last hour."""
    place, limit = state.place, context.settings.behind_epochs
    if context.view(place) is None or place.version in retired_versions(context.settings, place.name):
        return
    covered = state.newest.note.cut if state.newest else None
    landed = context.landed(covered) if covered else None
    if covered is None or landed is None:
        return
    far = {
        topic: epochs
        for topic, epochs in covered.behind(landed).items()
        if epochs > limit and _should_run(context, topic)
    }
    if far:
        topic, epochs = max(far.items(), key=lambda found: found[1])
        what = f"it covers {covered}, but landing of {topic} is {epochs} epochs ahead: readers get old rows"
        next_step = "anabranch status shows whether its stream runs; anabranch up starts it, and it catches up"
        yield Finding("STREAM_BEHIND", f"{place} ({place.uri})", what, next_step, Severity.DOUBTFUL)


def _should_run(context: Context, topic: str) -> bool:
    """Whether streams should be running: the process registry says so, or landing committed recently (in containers
    there is no registry)."""
    speed = process_registry.read(context.settings).get("speed")
    if speed is not None and speed.state != "done":
        return True
    committed = latest_commit(landing_table(context.settings, topic))
    return committed is not None and context.now - committed.commit_time_ms / 1000 < RUNNING


@each("routes")
def migrations(context: Context, state: TableState) -> Iterator[Finding]:
    """MIGRATION_STOPPED: a migration routes readers, but its run has sent no heartbeat for 15 minutes. A migration that
    a person runs manually names no run and is skipped."""
    extra = state.newest.note.extra if state.newest else {}
    migration = extra.get("migration") or {}
    if migration.get("state") not in ACTIVE or not migration.get("run"):
        return
    view, run = state.place.name, migration["run"]
    beats = [datetime.fromisoformat(extra["changed_at"]).timestamp(), last_heartbeat(context.settings, view, run)]
    # A heartbeat that is dated in the future doesn't say when it was sent.
    ages = [age for beat in beats if beat is not None and (age := context.now - beat) > -UNSEEN]
    if not ages or min(ages) > UNSEEN:
        shown = f"v{migration['old']} to v{migration['new']}, {migration['share']} % have v{migration['new']}"
        since = f"for {min(ages) / 60:.0f} minutes" if ages else "for an unknown time"
        where = f"migration of {view}, {shown}, run {run}"
        what = f"it is {migration['state']}, but its run has been silent {since}: a failing check won't roll it back"
        next_step = f"clear the task move of its run in Airflow, or anabranch migrate rollback {view} --why ...; "
        next_step += "if Airflow is stopped, anabranch up continues it"
        yield Finding("MIGRATION_STOPPED", where, what, next_step, Severity.DOUBTFUL)
