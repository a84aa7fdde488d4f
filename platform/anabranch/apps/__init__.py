"""The applications on top of the platform's packages: no other package imports them.

`cli` is the command line, `airflow` has the tasks and forms of the DAGs, `web` is the page in Airflow's navigation, and
`demo` runs everything on sample data.
"""
