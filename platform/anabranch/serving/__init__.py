"""Serving: the one way to read a view, whichever engine asks."""

from anabranch.serving.reading import Freshness, Reading, read

__all__ = ["Freshness", "Reading", "read"]
