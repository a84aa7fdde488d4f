"""Lands every declared topic, with one streaming query per topic, until it is stopped.

Started by `anabranch up`, or manually: python spark_jobs/landing.py [--topic NAME ...]
"""

from __future__ import annotations

import argparse
import sys

from anabranch.core.engine_end import leave
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import load_settings
from anabranch.ingest.landing.service import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", action="append", default=[], help="only this topic (may be repeated)")
    try:
        return run(load_settings(), parser.parse_args().topic)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    leave(main())
