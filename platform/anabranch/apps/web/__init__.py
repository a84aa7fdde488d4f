"""The page "Anabranch" in Airflow's navigation: what the platform holds, to look at; and a migration's buttons.

Only Airflow's API server imports ``app``. Nothing here starts Spark, and no code of an author runs in the server: what
needs it (``dirty``) is asked of a child process.
"""
