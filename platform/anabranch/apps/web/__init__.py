"""The page "Anabranch" in Airflow's navigation: status pages, and the buttons of migrations and replays.

In: requests of Airflow's users. Out: HTML pages and changes in the user's name.

`plugin` mounts `app` into Airflow's API server, the only process that imports it. Each request passes `access` (login
and rights). `pages` shows `overview` (all views), `days` and `charts` (calendars), `partition_history`, `migrations`,
`replays` and `checked_runs`; `known_views`, `lag`, `certificate_cache` and `dirty_days` read the data, `failures`
turns errors into text, `render` makes HTML, which `static/live.js` keeps up to date. `migration_actions`,
`replay_actions` and `reprocess_actions` take changes (`forms` parses them); `airflow_runs` shows and starts runs
through Airflow's REST API; `files` serves Data Docs and verdicts.

Nothing here starts Spark, and no author's code runs in the server: `dirty_days` asks a child process (`dirty_job`).
"""
