"""Rebuild days of a view, stage them, and certify them: see ``anabranch.operate.jobs.rebuild``."""

from __future__ import annotations

from anabranch.core.engine.lifetime import leave
from anabranch.operate.jobs.rebuild import main

if __name__ == "__main__":
    leave(main())
