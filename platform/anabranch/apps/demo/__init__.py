"""The command `anabranch demo`: runs the whole platform on real flights, and changes it while readers read.

In: the number of days, with injected faults or without. Out: printed results, and a platform home with its tables.

`command` starts the platform and runs both acts. First act: `run` waits for landing and the streams, triggers a
reprocess and asks the oracle. `second_act` uses `change` (late events, deployment, migration, one wrong row) while
`readers` keeps reading. `story` prints everything.
"""
