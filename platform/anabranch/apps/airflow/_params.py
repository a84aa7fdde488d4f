"""The trigger forms (parameters) and documentation pages of the platform's DAGs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Param

from anabranch.apps.airflow.static_views import Declared
from anabranch.change.replay.rate_limit import DEFAULT_SHARE

# The form and the REST API check these patterns; the plan checks each value again, since a form can be bypassed.
# Same as CUT of anabranch.change.reprocess_request, which is too slow to import in a file parsed every few seconds.
_AT = "[a-z][a-z0-9_]{0,62}@[0-9]{1,18}"
_DURATION = "^[0-9]{1,6} (second|minute|hour|day|week)s?$"
_DAY: dict[str, Any] = {"type": ["null", "string"], "format": "date", "maxLength": 10}
_MORE: dict[str, Any] = {"section": "More"}
"""The form shows these fields when a person opens the section: most runs don't need them."""


def parameters(versions: Sequence[Declared]) -> dict[str, Param]:
    """The form of a reprocess: ``from``, ``to`` and ``missing``; then ``cut`` and ``version``. The first of
    ``versions`` is the default."""
    readers = next((f" Most readers have v{view.version}." for view in versions if view.current), "")
    return {
        "from": Param(
            None,
            title="From (partition)",
            description="First day to rebuild, YYYY-MM-DD (UTC day of event time). Empty: the run's own partition.",
            **_DAY,
        ),
        "to": Param(
            None, title="To (partition)", description="Last day to rebuild, inclusive. Empty: one day.", **_DAY
        ),
        "missing": Param(
            False,
            title="All that are missing",
            description="Instead of From and To: every day that has events and was never published, and every "
            "published day that lacks late or loaded events. The plan finds and counts them.",
            type="boolean",
        ),
        "cut": Param(
            None,
            title="Cut",
            description="Position of the log to rebuild at, like flights@12 (an epoch of landing); separate several "
            "topics with commas. Empty: the newest.",
            type=["null", "string"],
            pattern=rf"^$|^{_AT}(,{_AT})*$",
            maxLength=900,
            **_MORE,
        ),
        "version": Param(
            versions[0].version,
            title="Version",
            description=f"Version of the view.{readers}",
            type="integer",
            enum=[view.version for view in versions],
            **_MORE,
        ),
    }


def migration_parameters(views: Mapping[str, Sequence[Declared]]) -> dict[str, Param]:
    """The form of a migration. Offers only views with several versions; if there are none, all views."""
    several = [name for name, versions in views.items() if len(versions) > 1]
    names = several or list(views)
    version: dict[str, Any] = {"type": ["null", "integer"], "minimum": 1, **_MORE}
    return {
        "view": Param(
            names[0] if names else None, title="View", description="The view whose readers move.", type="string",
            enum=names,
        ),
        "why": Param(title="Why", description="The reason; kept for ever.", type="string", minLength=1, maxLength=500),
        "changed": Param(
            [], title="Changed columns", description="Columns that are meant to differ, or that "
            "the new version removes or narrows, one per line.",
            type=["null", "array"], items={"type": "string", "maxLength": 200}, maxItems=20,
        ),
        "checks": Param(
            [], title="Checks", description="SQL predicates that every row of the new version satisfies, one per line.",
            type=["null", "array"], items={"type": "string", "maxLength": 2000}, maxItems=20,
        ),
        "from": Param(None, title="From version", description="Empty: the version that readers have now.", **version),
        "to": Param(None, title="To version", description="Empty: the newest declared version.", **version),
        "steps": Param(
            "1,5,25,50,100", title="Steps", description="Percent of the readers per step: increasing, 100 at the end.",
            type="string", pattern=r"^[0-9]{1,3}( *, *[0-9]{1,3}){0,19}$", **_MORE,
        ),
        "soak": Param(
            "10 minutes", title="Soak time", description="How long each step is watched before the next one.",
            type="string", pattern=_DURATION, **_MORE,
        ),
        "behind": Param(
            30, title="Epochs behind", description="How many epochs either version may be behind landing.",
            type="integer", minimum=0, **_MORE,
        ),
    }  # fmt: skip


def retirement_parameters(views: Mapping[str, Sequence[Declared]]) -> dict[str, Param]:
    """The form of a retirement. Views with several versions come first: others have none that readers don't have."""
    names = sorted(views, key=lambda name: len(views[name]) < 2)
    return {
        "view": Param(names[0] if names else None, title="View", type="string", enum=names),
        "version": Param(title="Version", description="The version to retire.", type="integer", minimum=1),
        "why": Param(title="Why", description="The reason; kept for ever.", type="string", minLength=1, maxLength=500),
        "grace": Param(
            "7 days", title="Grace", description="How long the version must have been without readers.",
            type="string", pattern=_DURATION, **_MORE,
        ),
    }  # fmt: skip


def replay_parameters(views: Mapping[str, Sequence[Declared]]) -> dict[str, Param]:
    """The form of a replay."""
    names = list(views)
    cut: dict[str, Any] = {"type": ["null", "string"], "pattern": rf"^$|^{_AT}(,{_AT})*$", "maxLength": 900, **_MORE}
    return {
        "view": Param(names[0] if names else None, title="View", type="string", enum=names),
        "from": Param(
            None, title="From (partition)",
            description="First day to replay, YYYY-MM-DD (UTC day of event time). Both empty: the whole view.",
            **_DAY,
        ),
        "to": Param(None, title="To (partition)", description="Last day, inclusive. Empty: one day.", **_DAY),
        "version": Param(
            None, title="Version", description="Empty: the version that most readers have.",
            type=["null", "integer"], minimum=1, **_MORE,
        ),
        "since": Param(
            None, title="Since (cut)",
            description="Instead of days: the days of events that landed after this cut, like flights@12.",
            **cut,
        ),
        "until": Param(None, title="Until (cut)", description="Replay up to this cut. Empty: the newest.", **cut),
        "share": Param(
            round(DEFAULT_SHARE * 100), title="Share of the cores (percent)",
            description="From 1 to 100, a maximum; it also runs at the lowest priority. Can be changed while it runs.",
            type="number", **_MORE,  # with a maximum, the form would turn 500 into 100 silently; the plan refuses it
        ),
        "speed": Param(
            0, title="Times real time", description="Maximum speed, by event time. 0: limited only by the share.",
            type="number", minimum=0, **_MORE,
        ),
        "source": Param(
            "landing", title="Source",
            description="Where the bytes are read from. log: read and decode them again from the log, if it still has "
            "them.",
            type="string", enum=["landing", "log"], **_MORE,
        ),
    }  # fmt: skip


def load_parameters() -> dict[str, Param]:
    """The form of a load."""
    return {
        "topic": Param(
            title="Topic", description="The declared topic whose landing table the rows go into.", type="string",
            pattern="^[a-z][a-z0-9_]{0,62}$",
        ),
        "files": Param(
            title="Files", description="Files or folders below ANABRANCH_LOAD_FOLDER, or s3://bucket/prefix, one per "
            "line.",
            type="array", items={"type": "string", "minLength": 1, "maxLength": 1000}, minItems=1, maxItems=1000,
        ),
    }  # fmt: skip


def repair_documentation(view: Declared) -> str:
    """The documentation page of a repair DAG."""
    versioned = f"{view.name} --version {view.version}"
    # Without a version, `views dirty` takes the newest one, `reprocess` the one that most readers have.
    looked_at, rebuilt = view.name if view.newest else versioned, view.name if view.current else versioned
    return f"""### Repair {view.name}

Rebuilds published days for which more events have landed since, at the newest cut, certifies them, and publishes them
in one commit. Skipped if there are none. A day is dirty if an event that its rows depend on landed after the cut that
it was published at. This is computed from landing, not from stored marks, so it can't get lost.

`anabranch views dirty {looked_at}` lists the dirty days. Days that were never published are not repaired. If late
events landed for such days, they are in neither half: the run's note says so, and
`anabranch reprocess {rebuilt} --missing` publishes them.
"""


def definition_table(versions: Sequence[Declared], more: Mapping[str, str]) -> str:
    """What a view declares, as a Markdown table; ``more``: further rows."""
    view = versions[0]
    rows = {
        "version": ", ".join(f"v{v.version}" for v in versions),
        "events": ", ".join(f"`{event}`" for event in view.events),
        "key": ", ".join(f"`{column}`" for column in view.key),
        **more,
        "defined in": f"`spark_jobs/views/{view.file}`, line {view.line}",
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def documentation(versions: Sequence[Declared]) -> str:
    """The documentation page of a reprocess DAG, from the view's docstring and its declaration."""
    view = versions[0]
    partition = f"day (UTC) of `{view.partition_by}`"
    table = definition_table(
        versions, {"partition": partition, "lookback, lookahead": f"{view.lookback}, {view.lookahead}"}
    )
    return f"""### {view.name}

{view.doc}

{table}

**plan** counts what there is to do. **rebuild** computes the partitions in staging and certifies each at one cut.
**publish** makes the certified ones visible to readers in one commit. Late events of a day that was never published are
in neither half: *All that are missing* rebuilds these days. Each step is safe to repeat. A partition that isn't
certified is not published; the run then fails and says why.
"""


MIGRATION = """### Move the readers of a view to another version

**plan** finds the days that readers have of the old version and that the new one lacks; **rebuild** and **publish**
build and certify them. **compare** compares both versions at one cut, and a person approves the result (**approve**,
under "Required actions"). **move** moves readers step by step; a reader that has the new version keeps it as the share
grows. During each soak time, certificates, freshness and failed reads are checked; before each step also the rows. If
a check fails, all readers are moved back immediately; the run then fails and says why.

To halt, skip the soak time, or roll back: the page *Anabranch*, or
`anabranch migrate halt|hasten|rollback VIEW --why ...`. A killed run continues where it was when its task is cleared.
"""


RETIREMENT = """### Retire a version of a view

**retire** retires a version without readers: its stream ends, it is no longer repaired, and reads of this version are
refused. It fails while the route gives the version readers, during the grace time after it lost the last ones, and
while readers still request this version. **approve** asks a person whether its tables may be deleted; **drop** deletes
them. Before that, `anabranch migrate reinstate VIEW VERSION --why ...` undoes the retirement.
"""


MAINTENANCE = """### Maintenance

**maintain** merges the small files that streams write, writes Delta checkpoints, and deletes what is no longer needed:
data files that were removed from their table more than 7 days ago (landing's: 30), commits older than 30 days, old
builds, leftovers of ended replays, logs. It changes no row, stops no stream, and may be killed at any point. The run's
note says what it did; `anabranch maintain --plan` shows what it would do now.
"""


LOAD = """### Load files into landing

**plan_load** checks the form and finds the files; **load** reads each file whole, and lands its rows as epochs of their
own, validated by the topic's contracts; **outcome** writes to the run's note what has landed, and what is wrong with
rows.

The events are *loaded*: they move no watermark, are not late, and reach readers through batch. Trigger `reprocess_VIEW`
with *All that are missing* afterwards. A file that landed before is known by its content and skipped, so a failed or
killed load is simply run again. A file that can't be read to its end is refused as a whole, and the run fails after the
others. While S3 is away the step waits, for an hour at most; `anabranch status` says why.
"""


REPLAY = """### Replay a view

**plan_replay** says how much of landing is read and what is replaced; a large replay waits for a person (**approve**).
**replay** runs the view's stream again from the first epoch into a separate table, with at most the given share of the
cores. If every certificate is equal, one commit makes the result visible to readers; otherwise everything is deleted,
and the run fails and says why.

If From, To, Since and Until are all empty, the whole view is replaced, and the live stream continues with the replay's
state. With days or cuts, only these partitions are replaced.

Progress and pace: `anabranch replay status|pace VIEW`, and the page *Anabranch*. A killed run continues where it was
when its task is cleared; `anabranch replay cancel VIEW` stops it and deletes everything that it made.
"""
