"""Whether somebody carries on what is under way: the stream of each version, and the run of each migration."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from anabranch.change.run_heartbeat import last_heartbeat
from anabranch.lake import latest_commit
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor.context import Context, TableState, each
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.operate.runtime import process_registry
from anabranch.serve.routes import ACTIVE
from anabranch.views.retired_versions import retired_versions

UNSEEN = 15 * 60
"""Seconds without a look after which nobody carries a migration: its run looks every 15 seconds."""
RUNNING = 60 * 60
"""Seconds since landing's newest commit in which the platform counts as running, whoever has started it."""


@each("speed")
def streams(platform: Context, held: TableState) -> Iterator[Finding]:
    """STREAM_BEHIND: a version is more epochs behind landing than ``ANABRANCH_BEHIND_EPOCHS``. Only of a stream that is
    meant to run: its version is declared and not retired, and the platform runs, or was stopped within the hour."""
    place, limit = held.place, platform.settings.behind_epochs
    if platform.view(place) is None or place.version in retired_versions(platform.settings, place.name):
        return
    covered = held.newest.note.cut if held.newest else None
    landed = platform.landed(covered) if covered else None
    if covered is None or landed is None:
        return
    behind = {topic: landed.epoch(topic) - covered.epoch(topic) for topic in covered.positions}
    far = {topic: epochs for topic, epochs in behind.items() if epochs > limit and _runs(platform, topic)}
    if far:
        topic, epochs = max(far.items(), key=lambda found: found[1])
        what = f"it covers {covered}, and landing of {topic} is {epochs} epochs further: readers get old rows"
        mending = "anabranch status: whether its stream runs and why not; anabranch up starts it, and it catches up"
        yield Finding("STREAM_BEHIND", f"{place} ({place.uri})", what, mending, Severity.DOUBTFUL)


def _runs(platform: Context, topic: str) -> bool:
    """Whether streams are meant to run: this home's records say so, or landing has committed of late (in containers
    there are no records)."""
    speed = process_registry.read(platform.settings).get("speed")
    if speed is not None and speed.state != "done":
        return True
    committed = latest_commit(landing_table(platform.settings, topic))
    return committed is not None and platform.now - committed.commit_time_ms / 1000 < RUNNING


@each("routes")
def migrations(platform: Context, held: TableState) -> Iterator[Finding]:
    """MIGRATION_STOPPED: it leads readers, and the run that carries it out has not looked for a quarter of an hour. One
    that a person leads by hand names no run."""
    said = held.newest.note.extra if held.newest else {}
    migration = said.get("migration") or {}
    if migration.get("state") not in ACTIVE or not migration.get("run"):
        return
    view, run = held.place.name, migration["run"]
    looks = [datetime.fromisoformat(said["changed_at"]).timestamp(), last_heartbeat(platform.settings, view, run)]
    # A look that is dated ahead says nothing of when it was.
    ages = [age for look in looks if look is not None and (age := platform.now - look) > -UNSEEN]
    if not ages or min(ages) > UNSEEN:
        shown = f"v{migration['old']} to v{migration['new']}, {migration['share']} % have v{migration['new']}"
        since = f"for {min(ages) / 60:.0f} minutes" if ages else "for nobody knows how long"
        where = f"migration of {view}, {shown}, run {run}"
        what = f"it is {migration['state']}, and its run has not looked {since}: a check that fails leads nobody back"
        mending = f"clear the task move of its run in Airflow, or anabranch migrate rollback {view} --why ...; "
        mending += "where Airflow is stopped: anabranch up, and it goes on"
        yield Finding("MIGRATION_STOPPED", where, what, mending, Severity.DOUBTFUL)
