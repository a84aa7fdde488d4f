"""The page on kinds of views names every view of the gallery, and no other; its queries are views."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from anabranch.core.project_folder import project_root
from anabranch.views import load_views
from support.landed_sample import DECLARED, gallery, sample_views

pytestmark = pytest.mark.unit
QUERIES = project_root() / "tests" / "spark" / "views" / "sql"


def block(language: str, word: str) -> str:
    page = (project_root() / "docs" / "kinds-of-views.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (found,) = (text for text in blocks if word in text)
    return str(found)


def test_the_query_of_the_page_is_the_one_that_is_compared_with_the_gallery(tmp_path: Path) -> None:
    (tmp_path / "week_on_week.sql").write_text(block("sql", "-- view: week_on_week"))
    (shown,), twin = load_views(tmp_path, DECLARED), gallery().get("week_on_week")
    assert (shown.key, shown.partition_by, shown.lookback) == (twin.key, twin.partition_by, twin.lookback)
    compared = (QUERIES / "week_on_week.sql").read_text()
    assert block("sql", "-- view: week_on_week") == compared.replace("week_on_week_sql", "week_on_week")


def test_the_query_in_python_is_a_view(tmp_path: Path) -> None:
    head = "from anabranch.views import view\nfrom pyspark.sql import DataFrame\n"
    (tmp_path / "busy.py").write_text(head + block("python", "sql="))
    (shown,) = load_views(tmp_path, DECLARED)
    assert (shown.name, shown.key) == ("busy", ("day", "origin"))


def test_the_page_names_every_view_of_the_gallery() -> None:
    page = (project_root() / "docs" / "kinds-of-views.md").read_text()
    named = {cells[2].strip().strip("`") for line in page.splitlines() if len(cells := line.split("|")) == 5}
    views = {name for name in named if re.fullmatch(r"[a-z_]+", name)} - {"view"}
    samples = {view.name for view in sample_views()}
    assert views - samples == {view.name for view in gallery()}
