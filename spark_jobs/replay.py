"""Replay a view from history next to the live stream: see ``anabranch.operate.jobs.replay``."""

from __future__ import annotations

from anabranch.core.engine.lifetime import leave
from anabranch.operate.jobs.replay import main

if __name__ == "__main__":
    leave(main())
