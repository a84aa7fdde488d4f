"""Show readers what a run has built and certified: what Airflow's step does behind the rebuild. May be called again.

    python publish.py PLAN

``PLAN`` is the file of the run's plan, which Airflow would hand from step to step.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from anabranch.change.publish_run import publish_run, save_outcome
from anabranch.core.settings import load_settings


def main(plan: Path) -> int:
    settings, planned = load_settings(), json.loads(plan.read_text())
    sys.stdout.write("publishing\n")
    sys.stdout.flush()
    began = datetime.now(UTC)
    outcome = save_outcome(settings, planned, publish_run(settings, planned), began)
    sys.stdout.write(json.dumps(outcome) + "\n")
    return 1 if outcome["refused"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
