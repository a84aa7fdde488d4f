"""What the guide to one's own data says is what happens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from anabranch.contracts import PlainJson, TimeField, load_declarations
from anabranch.core.errors import BadDefinition
from anabranch.core.settings import project_root

pytestmark = pytest.mark.unit
GUIDE = (project_root() / "docs" / "your-own-data.md").read_text()


def block(language: str, holds: str) -> str:
    (found,) = (text for text in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if holds in text)
    return str(found)


def test_its_topic_can_be_declared_and_its_record_follows_the_contract(tmp_path: Path) -> None:
    (tmp_path / "payments.py").write_text(block("python", "PlainJson("))
    topic = load_declarations(tmp_path).topic("payments")
    assert isinstance(topic.records, PlainJson)
    record = json.loads(block("json", "paymentId"))
    (contract,) = topic.contracts
    assert contract.required <= record.keys()
    assert not topic.owned


def test_its_error_is_the_one_that_is_raised(tmp_path: Path) -> None:
    text = block("python", "PlainJson(").replace('TimeField("createdAt", unit="ms")', '"createdAt"')
    (tmp_path / "payments.py").write_text(text)
    with pytest.raises(BadDefinition) as error:
        load_declarations(tmp_path)
    assert str(error.value).splitlines()[0] == block("text", "[MAPPING]").strip()


def test_the_formats_that_it_names_are_known() -> None:
    for pattern in re.findall(r'format="([^"]+)"', GUIDE):
        assert list(PlainJson(id="a", time=TimeField("a", format=pattern))._problems(()))[:1] == []
