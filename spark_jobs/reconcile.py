"""Judge the build of a run against the speed half: the certificates, given to spark-submit by the reprocess DAG.

Exit code 0 even where partitions differ: the verdict beside the build's manifest says which ones may be published.
"""

from __future__ import annotations

import argparse
import json
import sys

from anabranch.batch.manifest import read_manifest
from anabranch.errors import AnabranchError, exit_code
from anabranch.events import load_declarations
from anabranch.owned import end_with_owners
from anabranch.reconcile.judge import reconcile
from anabranch.reconcile.suite import load_ahead
from anabranch.settings import load_settings
from anabranch.spark import session
from anabranch.views import readable_views


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--run", required=True, help="the run whose build is judged; any name for a kappa view")
    args = parser.parse_args()
    settings = load_settings()
    load_ahead()
    try:
        declared = load_declarations(settings.project / "spark_jobs" / "contracts")
        registry = readable_views(settings.project / "spark_jobs" / "views", declared)
        view = registry.get(args.view, args.version)
        build = None if view.kappa else read_manifest(settings, view.name, view.version, args.run)
        spark = session(settings, f"anabranch-reconcile-{view.name}")
        try:
            registry.register(spark, settings, [view])
            verdict = reconcile(spark, settings, view, registry.topic(view), args.run, build)
        finally:
            spark.stop()
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code(error)
    sys.stderr.write(verdict.report)
    shown = {name: value for name, value in verdict.to_json().items() if name not in ("late_changes", "report")}
    sys.stdout.write(json.dumps(shown) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
