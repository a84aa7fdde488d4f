"""Serving: the one way to read a view, whichever engine asks."""

from anabranch.serve.read_api import read, read_untracked
from anabranch.serve.reading import Freshness, Reading

__all__ = ["Freshness", "Reading", "read", "read_untracked"]
