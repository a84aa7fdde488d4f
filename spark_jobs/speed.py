"""Keep the speed half of every view up to date, until SIGTERM or SIGINT: see ``anabranch.operate.jobs.speed``."""

from __future__ import annotations

from anabranch.core.engine.lifetime import leave
from anabranch.operate.jobs.speed import main

if __name__ == "__main__":
    leave(main())
