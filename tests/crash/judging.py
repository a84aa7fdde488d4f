"""Whether anything was lost, doubled or left in doubt by a kill: counted against the broker, the function of the view,
and an answer that knows nothing of either path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.doctor import Context, examine, log_of, recompute_checks
from anabranch.views import Registry
from anabranch_samples.oracle_check import oracle_check

from crash.acts import Act, Stage


def settle(stage: Stage, act: Act) -> None:
    """What goes on by itself on a running platform: landing comes to the log's end, the streams to landing's."""
    if act.views:
        stage.land_flights()
    for name, version in act.views:
        stage.stream(name, version)


def wrong(stage: Stage, act: Act, sent: Path | None) -> list[str]:
    """Everything that isn't as if nobody had been killed. ``sent``: the flights in the log; None where there are
    none."""
    platform = Context(stage.settings, stage.declared, stage.registry, log_of(stage.settings))
    about = Registry(tuple(stage.view(name, version) for name, version in act.views), stage.declared)
    rows = (*recompute_checks(stage.spark, 0), *([oracle_check(sent)] if sent is not None else []))
    reports = (examine(platform, pause=0.1), examine(replace(platform, views=about), rows, pause=0.1))
    found = [str(finding) for report in reports for finding in report.findings]
    unseen = [f"not checked: {each}" for report in reports for each in report.unseen]
    proof = verify(stage.settings, stage.flights if act.template != "quarantined" else stage.parcels)
    return [*found, *unseen, *([] if proof.sound else [f"landing: {proof.to_json()}"])]
