"""Operation of a platform: no path of the data depends on it.

`runtime` starts, watches and stops the processes, `maintenance` keeps tables and files small, `doctor` checks the
invariants, and `explain` goes from a served row to the events behind it.
"""
