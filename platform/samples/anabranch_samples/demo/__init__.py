"""The command `anabranch demo`: runs the whole platform on real flights, and changes it while readers read.

In: the number of days, with injected faults or without. Out: printed results, and a platform home with its tables.

`command` starts the platform and runs both acts. First act: `run` waits for landing and the streams, triggers a
reprocess and asks the oracle. `_second_act` uses `change` (late events, deployment, migration, one wrong row) while
`_readers` keeps reading. `_third_act` takes in topics of other teams (`shop` is a project for them, `_shop_sender`
their producers). `_story` prints everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["change", "command", "run"]
