"""The face of a reprocess DAG: its form of parameters and its page of documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.apps.airflow.static_views import Declared
from anabranch.change.replay.rate_limit import DEFAULT_SHARE

from airflow.sdk import Param

# The form and the REST API check these; the plan checks each value again, since a form can be bypassed.
# As CUT of anabranch.change.reprocess_request, which is too heavy for a file that is parsed every few seconds.
_AT = "[a-z][a-z0-9_]{0,62}@[0-9]{1,18}"
_DURATION = "^[0-9]{1,6} (second|minute|hour|day|week)s?$"
_DAY: dict[str, Any] = {"type": ["null", "string"], "format": "date", "maxLength": 10}


def parameters(versions: Sequence[Declared]) -> dict[str, Param]:
    """``from``, ``to``, ``missing``, ``cut`` and ``version``, newest version first."""
    return {
        "from": Param(
            None,
            title="From (partition)",
            description="First day to rebuild, YYYY-MM-DD (UTC day of event time). Empty: the run's own partition.",
            **_DAY,
        ),
        "to": Param(None, title="To (partition)", description="Last day to rebuild, included. Empty: one day.", **_DAY),
        "missing": Param(
            False,
            title="All that are missing",
            description="Instead of From and To: every day that has events and was never published, and every "
            "published day that lacks late events. The plan finds and counts them.",
            type="boolean",
        ),
        "cut": Param(
            None,
            title="Cut",
            description="Position of the log to rebuild at, like flights@12 (an epoch of landing); those of several "
            "topics with commas between them. Empty: the newest.",
            type=["null", "string"],
            pattern=rf"^$|^{_AT}(,{_AT})*$",
            maxLength=900,
        ),
        "version": Param(
            versions[0].version,
            title="Version",
            description="Version of the view.",
            type="integer",
            enum=[view.version for view in versions],
        ),
    }


def migration_parameters(views: Mapping[str, Sequence[Declared]]) -> dict[str, Param]:
    """The form of a migration: views with several versions first, those with one only where no other is declared."""
    several = [name for name, versions in views.items() if len(versions) > 1]
    names = several or list(views)
    version: dict[str, Any] = {"type": ["null", "integer"], "minimum": 1}
    return {
        "view": Param(
            names[0] if names else None, title="View", description="Whose readers move.", type="string", enum=names
        ),
        "from": Param(None, title="From version", description="Empty: the one that all readers have.", **version),
        "to": Param(None, title="To version", description="Empty: the newest that is declared.", **version),
        "why": Param(title="Why", description="Kept for ever.", type="string", minLength=1, maxLength=500),
        "steps": Param(
            "1,5,25,50,100", title="Steps", description="Percent of the readers, growing, 100 at the end.",
            type="string", pattern=r"^[0-9]{1,3}( *, *[0-9]{1,3}){0,19}$",
        ),
        "soak": Param(
            "10 minutes", title="Soak time", description="How long each step is watched before the next one.",
            type="string", pattern=_DURATION,
        ),
        "changed": Param(
            [], title="Changed columns", description="Columns that are meant to differ, one a line.",
            type=["null", "array"], items={"type": "string", "maxLength": 200}, maxItems=20,
        ),
        "checks": Param(
            [], title="Checks", description="SQL predicates that each row of the new version keeps, one a line.",
            type=["null", "array"], items={"type": "string", "maxLength": 2000}, maxItems=20,
        ),
        "behind": Param(
            30, title="Epochs behind", description="How far either version may be behind landing.",
            type="integer", minimum=0,
        ),
    }  # fmt: skip


def retirement_parameters(views: Mapping[str, Sequence[Declared]]) -> dict[str, Param]:
    """The form of a retirement."""
    names = list(views)
    return {
        "view": Param(names[0] if names else None, title="View", type="string", enum=names),
        "version": Param(title="Version", description="The one that nobody needs any more.", type="integer", minimum=1),
        "why": Param(title="Why", description="Kept for ever.", type="string", minLength=1, maxLength=500),
        "grace": Param(
            "7 days", title="Grace", description="How long nobody may have had it, nor named it.",
            type="string", pattern=_DURATION,
        ),
    }  # fmt: skip


def replay_parameters(views: Mapping[str, Sequence[Declared]]) -> dict[str, Param]:
    """The form of a replay."""
    names = list(views)
    cut: dict[str, Any] = {"type": ["null", "string"], "pattern": rf"^$|^{_AT}(,{_AT})*$", "maxLength": 900}
    return {
        "view": Param(names[0] if names else None, title="View", type="string", enum=names),
        "version": Param(
            None, title="Version", description="Empty: the newest that is declared.",
            type=["null", "integer"], minimum=1,
        ),
        "from": Param(
            None, title="From (partition)",
            description="First day to replay, YYYY-MM-DD (UTC day of event time). All four empty: the whole view.",
            **_DAY,
        ),
        "to": Param(None, title="To (partition)", description="Last day, included. Empty: one day.", **_DAY),
        "since": Param(
            None, title="Since (cut)",
            description="Instead of days: those that events touch which landed behind this cut, like flights@12.",
            **cut,
        ),
        "until": Param(None, title="Until (cut)", description="How far. Empty: the newest.", **cut),
        "share": Param(
            round(DEFAULT_SHARE * 100), title="Share of the cores (percent)",
            description="At most; it also runs at the lowest priority. Can be changed on the way.",
            type="number", minimum=1, maximum=100,
        ),
        "speed": Param(
            0, title="Times real time", description="At most, by event time. 0: as fast as the share goes.",
            type="number", minimum=0,
        ),
        "source": Param(
            "landing", title="Source",
            description="Whose bytes are read. log: read and decoded again from the log, where it still reaches.",
            type="string", enum=["landing", "log"],
        ),
    }  # fmt: skip


def repair_documentation(view: Declared) -> str:
    """The page of a repair DAG."""
    which = view.name if view.newest else f"{view.name} --version {view.version}"
    return f"""### Repair {view.name}

Published days that more events have landed for since are rebuilt at the newest cut, certified, and shown to readers in
one commit: exactly these days, and no run where there are none. Nobody marks a day, so no mark can be lost: a day is
dirty as long as an event that its rows depend on has landed after the cut that it was published at.

`anabranch views dirty {view.name}` lists them. Days that were never published are not repaired: the plan's log says
whether late events landed for such days, which are in no half then, and `anabranch reprocess {which} --missing`
publishes them.
"""


def documentation(versions: Sequence[Declared]) -> str:
    """The DAG's page, from the view's docstring and its declaration."""
    view = versions[0]
    rows = {
        "version": ", ".join(f"v{v.version}" for v in versions),
        "events": ", ".join(f"`{event}`" for event in view.events),
        "key": ", ".join(f"`{column}`" for column in view.key),
        "partition": f"day (UTC) of `{view.partition_by}`",
        "lookback, lookahead": f"{view.lookback}, {view.lookahead}",
        "defined in": f"`spark_jobs/views/{view.file}`, line {view.line}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""### {view.name}

{view.doc}

| | |
| --- | --- |
{table}

**plan** counts what there is to do, **rebuild** computes the partitions beside what readers see, **reconcile**
certifies each partition at one position of the log, **publish** shows the certified ones to readers in one commit.
History that was loaded late is in no half of a day that was never published: *All that are missing* takes these days.
Each step may be repeated. A partition that isn't certified isn't published: the run is red then and says why.
"""


MIGRATION = """### Move the readers of a view to another version

**plan** finds the days that readers have of the old version and that the new one lacks; **rebuild**, **reconcile** and
**publish** make and certify these beside what readers see. **compare** holds both versions against each other at one
position of the log; a person approves that (**approve**, under "Required actions"). **move** leads readers over, step
by step: the same reader keeps its version as shares grow. While a step soaks certificates, freshness and failed reads
are watched, before each step rows too. A check that fails leads everybody back at once: the run is red then and says
why.

To halt, go on at once, or roll back: the page *Anabranch*, or `anabranch migrate halt|hasten|rollback VIEW --why ...`.
A run that was killed goes on where it was when it is cleared.
"""


RETIREMENT = """### Retire a version of a view

**retire** takes a version away that no reader has any more: its stream ends, nothing repairs it, and reading it by
its number is refused. It is refused itself while the route gives the version readers, within the grace time after it
lost its last ones, and while anybody names it. **approve** asks a person whether its tables may be deleted; **drop**
deletes them. Until then `anabranch migrate reinstate VIEW VERSION --why ...` takes it all back.
"""


MAINTENANCE = """### Maintenance

**maintain** merges the small files that streams write, makes checkpoints of Delta's logs, and takes away what nobody
needs any more: data files that no version names since 7 days (landing's: 30), commits older than 30 days, old builds,
what ended replays left, logs. It changes no row, stops no stream, and may be killed at any point. Its note says what it
did; `anabranch maintain --plan` says what it would do now.
"""


REPLAY = """### Replay a view

**plan_replay** says how much of landing is walked and what is replaced; a large one waits for a person (**approve**).
**replay** runs the view's stream again, from the first epoch on, into a table of its own, at most at the share of the
cores that was asked for. When every certificate of it is equal, one commit shows it to readers; else nothing of it is
left, and the run is red and says why.

All four of From, To, Since and Until empty: the whole view, and the live stream goes on with the replay's state. With
days or cuts: only these partitions are replaced.

Progress and pace: `anabranch replay status|pace VIEW`, and the page *Anabranch*. A run that was killed goes on where it
was when its task is cleared; `anabranch replay cancel VIEW` leaves nothing of it.
"""
