"""Views: one pure function each, declared once, run by both paths."""

from anabranch.views.definition import View
from anabranch.views.registry import Registry, collecting, load_views, readable_views, view

__all__ = ["Registry", "View", "collecting", "load_views", "readable_views", "view"]
