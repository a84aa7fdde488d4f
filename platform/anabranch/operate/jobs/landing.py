"""Lands every declared topic, with one streaming query per topic, until it is stopped.

Started by `anabranch up`, or manually: python spark_jobs/landing.py [--topic NAME ...]
"""

from __future__ import annotations

import argparse
import sys

from anabranch.core.engine.idle_memory import return_when_idle
from anabranch.core.engine.lifetime import leave
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import load_settings
from anabranch.ingest.landing.service import run
from anabranch.operate.jobs._landed_events import start_posting


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", action="append", default=[], help="only this topic (may be repeated)")
    only = parser.parse_args().topic
    try:
        settings = load_settings()
        start_posting(settings)
        return_when_idle(settings)
        return run(settings, only)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    leave(main())
