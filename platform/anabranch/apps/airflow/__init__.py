"""What the platform does inside Airflow: one reprocess DAG per view, its steps, and a client of the REST API.

The client and the reader of declarations don't import Airflow; the other modules are for Airflow's own processes.
"""
