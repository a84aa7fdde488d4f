"""Nexmark, the benchmark of an auction house, as topics, events and views of the platform: see cases/nexmark.py."""
