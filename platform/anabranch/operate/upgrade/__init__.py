"""Brings what an older version of this package has written up to the formats of this one (ADR 0046).

In: the settings of a home in which nothing runs, and what its project declares. Out: `Change`s, planned or done.

1. ``_places`` says where in a home each kind of control file is, and which formats tables and checkpoints have;
2. ``_plan`` reads the home and lists what is older than this version, without changing anything;
3. ``_apply`` makes the changes one by one, each of them atomic, and lets the home name its format last.

What is newer than this version knows is refused by both (FORMAT_NEWER). After a kill the next call does what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.upgrade._apply import apply_upgrade
    from anabranch.operate.upgrade._plan import Change, Plan, plan_upgrade
else:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"_apply": ("apply_upgrade",), "_plan": ("Change", "Plan", "plan_upgrade")}
    )

__all__ = ["Change", "Plan", "apply_upgrade", "plan_upgrade"]
