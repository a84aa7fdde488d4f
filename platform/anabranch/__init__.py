"""Anabranch: one view definition, two paths over the same log, proven equal at the same position."""
