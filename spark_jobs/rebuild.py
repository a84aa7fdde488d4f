"""Rebuild days of a view from landing and stage them: the batch path, given to spark-submit by the reprocess DAG."""

from __future__ import annotations

import argparse
import json
import sys

from anabranch.batch import publications, rebuild
from anabranch.batch.manifest import parse_days
from anabranch.batch.rebuild import cut_at
from anabranch.batch.sampling import try_each_version
from anabranch.change.plan import check_still_holds
from anabranch.errors import AnabranchError, exit_code
from anabranch.events import load_declarations
from anabranch.owned import end_with_owners
from anabranch.settings import load_settings
from anabranch.spark import session
from anabranch.tables.cut import parse_epochs
from anabranch.tables.layout import batch_table
from anabranch.views import readable_views


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--days", type=parse_days, required=True, help="like 2013-01-01..2013-01-31,2013-02-03")
    parser.add_argument("--cut", default="", help="like flights@12; landing's newest when left out")
    parser.add_argument("--fingerprint", help="the definition that was planned; any, when left out")
    parser.add_argument("--run", required=True)
    args = parser.parse_args()
    settings = load_settings()
    declared = load_declarations(settings.project / "spark_jobs" / "contracts")
    registry = readable_views(settings.project / "spark_jobs" / "views", declared)
    view = registry.get(args.view, args.version)
    topics = registry.topic(view)
    spark = session(settings, f"anabranch-rebuild-{view.name}")
    try:
        check_still_holds(view, args.fingerprint or view.fingerprint)
        registry.register(spark, settings, [view])
        if not publications(batch_table(settings, view.name, view.version)):
            cut = cut_at(settings, topics, parse_epochs(args.cut))
            try_each_version(spark, settings, view, topics, cut)
        build = rebuild(spark, settings, view, topics, args.days, args.run, parse_epochs(args.cut))
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code(error)
    finally:
        spark.stop()
    sys.stdout.write(json.dumps({k: v for k, v in build.to_json().items() if k not in ("files", "partitions")}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
