"""Land every declared topic, until SIGTERM or SIGINT: see ``anabranch.operate.jobs.landing``."""

from __future__ import annotations

import sys

from anabranch.operate.jobs.landing import main

if __name__ == "__main__":
    sys.exit(main())
