"""Migration: moves readers from one version of a view to another in steps, each checked, each reversible (ADR 16).

In: a request with the steps. Out: commits of the view's route, which readers follow, and the state of the migration.

``migration_request`` validates the parameters; ``migration`` takes the steps, halts, resumes and rolls back;
``promotion_checks`` run before each step; ``migration_record`` is what a route stores of a migration, ``step_progress``
what was observed during a step, ``run_heartbeat`` the sign that the run which takes the steps lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["migration", "migration_record", "migration_request", "promotion_checks", "run_heartbeat", "step_progress"]
