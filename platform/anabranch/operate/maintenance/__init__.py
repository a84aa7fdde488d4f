"""Small files, old files, logs, checkpoints and what runs leave: kept small, and nothing that is needed (ADR 0021)."""
