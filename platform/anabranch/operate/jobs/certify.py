"""Certifies the live table of a view at its newest commit, submitted by the DAG of a kappa view.

Exit code 0 even if it differs: the verdict says so. Called again with the same ``--run``, it compares again.
"""

from __future__ import annotations

import argparse
import sys
import time

from anabranch.certify.verdict import VERDICT
from anabranch.change.certify_plan import make_certify_plan
from anabranch.change.certify_run import certify_live_table
from anabranch.change.reprocess_plan import check_still_holds
from anabranch.change.run_progress import RECONCILE, RunProgress
from anabranch.core.engine.die_with_parent import end_with_owners
from anabranch.core.engine.job_error import carried_out
from anabranch.core.engine.lifetime import engine, leave
from anabranch.core.engine.spark import engine_for
from anabranch.core.settings import load_settings
from anabranch.operate.jobs._watch import watched
from anabranch.views.project import Project


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--fingerprint", help="the definition that was planned; any, when left out")
    args = parser.parse_args()
    began = time.time()

    def work() -> None:
        settings = load_settings()
        view = Project(settings).view(args.view, args.version)
        check_still_holds(view.definition, args.fingerprint or view.definition.fingerprint)
        plan = make_certify_plan(view)  # again: events may have come since, or a replay
        expected = plan.estimate.seconds if plan.estimate else None
        days = plan.days or ()
        now = RunProgress(
            view.name, view.version, args.run, RECONCILE, len(days), plan.events, began, estimated=expected
        )
        with (
            engine(settings, f"anabranch-certify-{view.name}", engine_for(settings, plan.events)) as spark,
            watched(spark, settings, now, days),
        ):
            certified = certify_live_table(spark, view, plan, args.run)
        sys.stderr.write(certified.verdict.report)
        sys.stdout.write(f"{VERDICT.content(certified.verdict)}\n")

    return carried_out(work)


if __name__ == "__main__":
    leave(main())
