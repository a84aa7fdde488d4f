"""What is wrong with a platform, where, and what mends it: read from its tables and files alone (ADR 0019)."""
