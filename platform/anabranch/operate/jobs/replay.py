"""Replays a view from landing, in parallel to the live stream: submitted by the replay DAG.

Exit code 0 whether it was published or not: its state file says so, and how far it was if it is killed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from datetime import date

from anabranch.change.replay.rate_limit import DEFAULT_SHARE, Pace, lower_own_priority
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.reprocess_plan import check_still_holds
from anabranch.compute.batch.manifest import parse_days
from anabranch.core.engine.die_with_parent import end_with_owners
from anabranch.core.engine.job_error import carried_out
from anabranch.core.engine.lifetime import engine, leave
from anabranch.core.settings import load_settings
from anabranch.lake.cut import parse_epochs
from anabranch.views.project import Project


def days(text: str) -> tuple[date, ...] | None:
    """Parses days; None for an empty text, which means the whole view."""
    return tuple(parse_days(text)) if text else None


def main() -> int:
    end_with_owners()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", required=True)
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--run", required=True, help="its name; a run with the same name continues a killed one")
    parser.add_argument("--days", type=days, help="like 2013-01-01..2013-01-31; the whole view when left out")
    parser.add_argument("--until", default="", help="the last epochs, like flights@12; readers' own when left out")
    parser.add_argument("--fingerprint", help="the definition that was planned; any, when left out")
    parser.add_argument("--share", type=float, default=DEFAULT_SHARE, help="maximum share of all cores, up to 1")
    parser.add_argument("--speed", type=float, default=0.0, help="maximum multiple of real time; 0: no limit")
    parser.add_argument("--estimated", type=float, help="the seconds that the plan estimated")
    parser.add_argument("--source", choices=["landing", "log"], default="landing", help="where bytes are read from")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    lower_own_priority()

    def work() -> None:
        settings = load_settings()
        registry = Project(settings).readable_views()
        definition = registry.get(args.view, args.version)
        check_still_holds(definition, args.fingerprint or definition.fingerprint)
        view = registry.handle(settings, definition)
        until, pace = parse_epochs(args.until), Pace(args.share, args.speed)
        asked = ReplayRequest(view, args.run, args.days, until, pace, args.estimated, args.source)
        with engine(settings, f"anabranch-replay-{view.name}") as spark:
            registry.register(spark, settings, [definition])
            ended = replay(spark, asked, lowest_priority=True)
        sys.stdout.write(json.dumps(ended.to_json()) + "\n")

    return carried_out(work)


if __name__ == "__main__":
    leave(main())
