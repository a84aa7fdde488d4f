"""How fast the platform is, beside hand-written jobs that do the same work: ``python -m benchmarks [NAME ...]``."""
