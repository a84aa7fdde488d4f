"""The trigger form and the documentation page of a kappa view's reprocess DAG."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

from anabranch.apps.airflow._params import definition_table
from anabranch.apps.airflow.static_views import Declared
from anabranch.change.replay.rate_limit import DEFAULT_SHARE


def certify_parameters(versions: Sequence[Declared]) -> dict[str, Param]:
    """The form: ``replay``; then ``share`` and ``version``. The first of ``versions`` is the default."""
    readers = next((f" Most readers have v{view.version}." for view in versions if view.current), "")
    return {
        "replay": Param(
            False,
            title="Replay it first",
            description="Run its stream again from the first epoch on, replace its rows if all of them are right, and "
            "then certify them. Off: certify the rows that readers have.",
            type="boolean",
        ),
        "share": Param(
            round(DEFAULT_SHARE * 100),
            title="Share of the cores (percent)",
            description="Of the replay: from 1 to 100, a maximum. Can be changed while it runs.",
            type="number",
            section="More",
        ),
        "version": Param(
            versions[0].version,
            title="Version",
            description=f"Version of the view.{readers}",
            type="integer",
            enum=[view.version for view in versions],
            section="More",
        ),
    }


def certify_documentation(versions: Sequence[Declared]) -> str:
    """The documentation page, from the view's docstring and its declaration."""
    view = versions[0]
    which = view.name if view.current else f"{view.name} --version {view.version}"
    table = definition_table(versions, {"partition": "none: a kappa view, one whole"})
    return f"""### {view.name}

{view.doc}

{table}

A kappa view has no days and no batch half: readers get the rows of its stream. **plan** counts the landed events.
**certify** runs the view's function over all of them up to the cut of the live table's newest commit, and compares the
result with the table's own files at that commit. The stream goes on meanwhile. **judge** fails if a row differs, and
says which; `anabranch replay start {which}` or *Replay it first* repairs the table.

With *Replay it first*, **replay** runs the stream again from the first epoch into a table of its own, and replaces
the live rows in one commit if they are right; **replayed** says how it ended; then the new rows are certified.

The scheduled run only certifies. It is skipped if nothing has changed since the last equal certificate, and if it
would read more events than need a person's approval.
"""
