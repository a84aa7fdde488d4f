"""Keeps the speed half of every registered view up to date, until it is stopped.

Started by `anabranch up`, or manually: python spark_jobs/speed.py [--view NAME ...]
"""

from __future__ import annotations

import argparse
import sys

from anabranch.compute.speed.service import run
from anabranch.core.engine.idle_memory import return_when_idle
from anabranch.core.engine.lifetime import leave
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import load_settings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", action="append", default=[], help="only this view (may be repeated)")
    only = parser.parse_args().view
    try:
        settings = load_settings()
        return_when_idle(settings)
        return run(settings, only)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    leave(main())
