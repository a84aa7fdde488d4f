"""Land every declared topic, until SIGTERM or SIGINT: see ``anabranch.operate.jobs.landing``."""

from __future__ import annotations

from anabranch.core.engine.lifetime import leave
from anabranch.operate.jobs.landing import main

if __name__ == "__main__":
    leave(main())
