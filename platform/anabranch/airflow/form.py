"""The face of a reprocess DAG: its form of parameters and its page of documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Param

from anabranch.airflow.declared import Declared

# The form and the REST API check these; the plan checks each value again, since a form can be bypassed.
# As CUT of anabranch.change.parameters, which is too heavy for a file that is parsed every few seconds.
_AT = "[a-z][a-z0-9_]{0,62}@[0-9]{1,18}"
_DAY: dict[str, Any] = {"type": ["null", "string"], "format": "date", "maxLength": 10}


def parameters(versions: Sequence[Declared]) -> dict[str, Param]:
    """``from``, ``to``, ``cut`` and ``version``, newest version first."""
    return {
        "from": Param(
            None,
            title="From (partition)",
            description="First day to rebuild, YYYY-MM-DD (UTC day of event time). Empty: the run's own partition.",
            **_DAY,
        ),
        "to": Param(None, title="To (partition)", description="Last day to rebuild, included. Empty: one day.", **_DAY),
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


def repair_documentation(view: Declared) -> str:
    """The page of a repair DAG."""
    return f"""### Repair {view.name}

Published days that more events have landed for since are rebuilt at the newest cut, certified, and shown to readers in
one commit: exactly these days, and no run where there are none. Nobody marks a day, so no mark can be lost: a day is
dirty as long as an event that its rows depend on has landed after the cut that it was published at.

`anabranch views dirty {view.name}` lists them.
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
Each step may be repeated. A partition that isn't certified isn't published: the run is red then and says why.
"""
