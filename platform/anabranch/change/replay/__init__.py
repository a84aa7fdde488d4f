"""Run a view again from history, beside the live one (ADR 0018)."""
