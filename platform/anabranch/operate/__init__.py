"""Operate: run the platform, look after it, and ask it questions. Nothing before these packages depends on them.

``setup`` installs the JARs; ``jobs`` are the programs with a Spark engine; ``runtime`` starts and supervises processes;
``maintenance`` compacts and deletes; ``backup`` copies what can't be made again; ``upgrade`` brings older formats on
disk up to date; ``doctor`` checks the invariants; ``explain`` finds the events behind a row; ``trial`` runs a view that
isn't declared yet.
"""
