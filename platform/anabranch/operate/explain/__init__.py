"""Explain a number: from a served row to the events behind it."""

from anabranch.operate.explain.explain_row import explain
from anabranch.operate.explain.explanation import Comparison, Explanation, Part

__all__ = ["Comparison", "Explanation", "Part", "explain"]
