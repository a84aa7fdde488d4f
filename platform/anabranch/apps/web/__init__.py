"""The page "Anabranch" in Airflow's navigation: status pages, and the buttons of migrations and replays.

In: requests of Airflow's users. Out: HTML pages and changes in the user's name.

`plugin` mounts `_app` into Airflow's API server, the only process that imports it. Each request passes `_access` (login
and rights). `_pages` shows `_overview` (all views), `_days` and `_charts` (calendars), `_partition_history`,
`_migrations`, `_replays` and `_checked_runs`; `_known_views`, `_lag`, `_certificate_cache` and `_dirty_days` read the
data, `_failures` turns errors into text, `_glossary` explains terms, `_render` makes HTML, which `static/live.js` keeps
up to date. `_migration_actions`, `_replay_actions` and `_reprocess_actions` take changes (`_forms` parses them);
`_airflow_runs` shows and starts runs through Airflow's REST API; `_files` serves Data Docs and verdicts.

Nothing here starts Spark, and no author's code runs in the server: `_dirty_days` asks a child process (`_dirty_job`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["plugin"]
