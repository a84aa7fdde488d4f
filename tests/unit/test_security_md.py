"""SECURITY.md and its ADR name tests, settings and files that there are."""

from __future__ import annotations

import re

import pytest
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit

ROOT = project_root()
DOCUMENTS = ["SECURITY.md", "docs/adr/0020-secrets-and-who-is-let-in.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_test_that_vouches_for_a_statement_is_there(name: str) -> None:
    text = (ROOT / name).read_text()
    named = set(re.findall(r"`(?:tests/)?((?:unit|system|spark)/[a-z_/]*(?:\.py)?|test_[a-z_]+\.py)`", text))
    assert len(named) > 8
    there = {str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("*")}
    there |= {path.rpartition("/")[2] for path in there}
    assert {each for each in named if each.rstrip("/") not in there} == set()


@pytest.mark.parametrize("name", [*DOCUMENTS, "README.md"])
def test_each_setting_that_is_named_is_one(name: str) -> None:
    named = set(re.findall(r"ANABRANCH_([A-Z_]+[A-Z])\b", (ROOT / name).read_text()))
    assert {each.lower() for each in named} <= set(Settings.model_fields)


def test_the_readme_leads_to_it() -> None:
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text()
