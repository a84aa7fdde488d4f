"""Change: reprocess days, repair, migrate readers to another version, and replay streams.

In: requests from a form, a REST call or the CLI. Out: plans as data, published builds, routes, replayed tables.

Reprocess: ``reprocess_request`` validates the parameters (with ``request_fields``), ``reprocess_plan`` makes the plan
(with ``estimates``, by ``time_fit``), and ``publish_run`` publishes what certify approved; ``run_progress`` is how
far a run is, ``run_names`` what Airflow calls it. Repair: ``dirty_partitions`` finds published days with newer
events. Migration: ``migration_request`` validates, ``migration`` takes the steps; ``promotion_checks`` run before
each step, ``migration_record`` is what a route stores, ``step_progress`` and ``run_heartbeat`` hold what was
observed. Replay: ``replay_request`` validates, ``replay_plan`` makes the plan, the package ``replay`` runs it.
"""
