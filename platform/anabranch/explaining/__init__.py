"""Explain a number: from a served row to the events behind it."""

from anabranch.explaining.explanation import Comparison, Explanation, Part
from anabranch.explaining.number import explain

__all__ = ["Comparison", "Explanation", "Part", "explain"]
