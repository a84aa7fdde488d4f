"""Keep the speed half of every registered view up to date until told to stop: see ``anabranch.operate.jobs.speed``."""

from __future__ import annotations

import sys

from anabranch.operate.jobs.speed import main

if __name__ == "__main__":
    sys.exit(main())
