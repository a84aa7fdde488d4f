"""Serving: the one way to read a view, whichever engine asks."""

from anabranch.serving.reading import Freshness, Reading
from anabranch.serving.reads import look_at, read

__all__ = ["Freshness", "Reading", "look_at", "read"]
