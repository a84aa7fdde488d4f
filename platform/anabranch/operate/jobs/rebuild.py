"""Rebuilds days of a view from landing, stages and certifies them: the batch path, submitted by the DAGs.

Exit code 0 even if partitions differ: the verdict next to the build's manifest says which ones may be published.
Called again with the same ``--run``, it certifies the existing build again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from anabranch.certify.reconciliation import reconcile
from anabranch.certify.verdict import VERDICT, Verdict
from anabranch.change.estimates import estimate, outcomes
from anabranch.change.reprocess_plan import check_still_counted, check_still_holds
from anabranch.change.run_progress import REBUILD, RECONCILE, RunProgress
from anabranch.compute.batch.manifest import MANIFEST, Build, manifest_path, parse_days
from anabranch.compute.batch.publish import publications
from anabranch.compute.batch.rebuild import cut_at, rebuild
from anabranch.compute.batch.version_samples import try_each_version
from anabranch.core.engine.die_with_parent import end_with_owners
from anabranch.core.engine.job_error import carried_out
from anabranch.core.engine.lifetime import engine, leave
from anabranch.core.engine.spark import engine_for
from anabranch.core.settings import Settings, load_settings
from anabranch.core.storage import storage_of
from anabranch.lake.cut import parse_epochs
from anabranch.lake.layout import VersionRef
from anabranch.operate.jobs._watch import watched
from anabranch.views.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.views import Registry


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--days", type=parse_days, required=True, help="like 2013-01-01..2013-01-31,2013-02-03")
    parser.add_argument("--cut", default="", help="like flights@12; landing's newest when left out")
    parser.add_argument("--fingerprint", help="the definition that was planned; any, when left out")
    parser.add_argument("--run", required=True)
    parser.add_argument("--events", type=int, help="how many are read: few are faster without compiled plans")
    parser.add_argument(
        "--late", type=int, help="with --events: how many late ones were planned; refused if the numbers have changed"
    )
    parser.set_defaults(began=time.time())
    args = parser.parse_args()

    def work() -> None:
        settings = load_settings()
        registry = Project(settings).readable_views()
        view = registry.get(args.view, args.version)
        with engine(settings, f"anabranch-rebuild-{view.name}", engine_for(settings, args.events)) as spark:
            build, verdict = rebuild_and_reconcile(spark, settings, registry, args)
        sys.stderr.write(verdict.report)
        built = {k: v for k, v in MANIFEST.content(build).items() if k not in ("files", "partitions", "columns")}
        told = ("equal", "refused", "whole", "speed_version")
        judged = {k: v for k, v in VERDICT.content(verdict).items() if k in told}
        sys.stdout.write(json.dumps({**built, **judged, "certified_at": verdict.cut}) + "\n")

    return carried_out(work)


def rebuild_and_reconcile(
    spark: SparkSession, settings: Settings, registry: Registry, args: argparse.Namespace
) -> tuple[Build, Verdict]:
    definition = registry.get(args.view, args.version)
    view = registry.handle(settings, definition)
    check_still_holds(definition, args.fingerprint or definition.fingerprint)
    manifest = manifest_path(view, args.run)
    built = storage_of(manifest).exists(manifest)
    if args.late is not None and not built:
        check_still_counted(view, args.days, args.cut, (args.events, args.late))
    registry.register(spark, settings, [definition])
    if not publications(view.batch_table):
        try_each_version(spark, view, cut_at(settings, view.topics, parse_epochs(args.cut)))
    with watched(spark, settings, _progress(settings, args), args.days) as watch:
        build = rebuild(spark, view, args.days, args.run, parse_epochs(args.cut))
        watch.step(RECONCILE)
        return build, reconcile(spark, view, args.run, build)


def _progress(settings: Settings, args: argparse.Namespace) -> RunProgress:
    days, events = len(args.days), args.events or 0
    expected = estimate(outcomes(VersionRef(settings, args.view, args.version)), days, events).seconds
    return RunProgress(args.view, args.version, args.run, REBUILD, days, events, args.began, estimated=expected)


if __name__ == "__main__":
    leave(main())
