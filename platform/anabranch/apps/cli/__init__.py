"""The command line `anabranch`.

In: arguments. Out: text, tables or JSON on stdout, errors on stderr, and exit code 1 on errors or bad results.

`main` builds the app: each ``*_commands`` module registers its commands and imports heavy packages only when called.
`context` loads settings and declarations. `run_progress` triggers an Airflow run and follows it. `sample_oracle` checks
the sample views for `doctor --sent` and the demo. A command only parses, calls a package, and prints.
"""
