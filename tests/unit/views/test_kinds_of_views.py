"""The page on kinds of views names every view of the gallery, and no other."""

from __future__ import annotations

import re

import pytest
from anabranch.core.settings import project_root
from support.landed_sample import gallery, sample_views

pytestmark = pytest.mark.unit


def test_the_page_names_every_view_of_the_gallery() -> None:
    page = (project_root() / "docs" / "kinds-of-views.md").read_text()
    named = {cells[2].strip().strip("`") for line in page.splitlines() if len(cells := line.split("|")) == 5}
    views = {name for name in named if re.fullmatch(r"[a-z_]+", name)} - {"view"}
    samples = {view.name for view in sample_views()}
    assert views - samples == {view.name for view in gallery()}
