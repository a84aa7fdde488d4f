"""What changes an object that a view uses belongs to the view, though it binds no name."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.contracts import load_declarations
from anabranch.core.errors import BadDefinition
from anabranch.core.project_folder import project_root
from anabranch.views import load_views

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
BEGIN = """\
from functools import singledispatch
from types import SimpleNamespace
from anabranch import views
from anabranch.views import view
from pyspark.sql import functions as F


class T:
    limit = 1


def helper(column):
    return column > helper.limit


@singledispatch
def cast(value):
    return value


helper.limit = 1
U = SimpleNamespace(codes={})
LIMIT, NAMES = 15, ("AA", "UA")
"""
END = """
@view(name="seen", version=1, events="flight.departed", key="tailnum")
def seen(departed):
    used = (T.limit, U.codes, cast(LIMIT), NAMES)
    return departed.where(helper(F.col("dep_delay"))).where(F.lit(str(len(used))) > 1)
"""


def fingerprint(folder: Path, between: str) -> str:
    (folder / str(len(list(folder.iterdir())))).mkdir()
    newest = max(folder.iterdir(), key=lambda each: int(each.name))
    (newest / "views.py").write_text(f"{BEGIN}{between}\n{END}")
    return next(iter(load_views(newest, DECLARED))).fingerprint


CHANGES = [
    "T.limit = {}",
    "T.limit += {}",
    "T.limit: int = {}",
    "helper.limit = {}",
    "U.codes['AA'] = {}",
    "U.codes['AA'] = {{}}\nU.codes['AA']['x'] = {}",
    "setattr(T, 'limit', {})",
    "U.codes.update(AA={})",
    "if LIMIT:\n    T.limit = {}",
    "if LIMIT:\n    setattr(T, 'limit', {})",
    "for each in (T, U):\n    setattr(each, 'limit', {})",
    "try:\n    T.limit = {}\nfinally:\n    pass",
    "for T.limit in ({},):\n    pass",
    "@cast.register\ndef _(value: int):\n    return value + {}",
    "@cast.register(int)\ndef _(value):\n    return value + {}",
    "match {}:\n    case LIMIT:\n        pass",
    "match [{}]:\n    case [*NAMES]:\n        pass\nNAMES = tuple(NAMES)",
    "match {{'x': {}}}:\n    case {{**NAMES}}:\n        NAMES = tuple(NAMES.values())",
    "if LIMIT:\n    match {}:\n        case LIMIT:\n            pass",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_a_view_uses_changes_its_fingerprint(tmp_path: Path, change: str) -> None:
    first, second = (fingerprint(tmp_path, change.format(number)) for number in (5, 6))
    assert first != second
    assert fingerprint(tmp_path, "") not in (first, second)


OTHERS = [
    "class V:\n    limit = 1\nV.limit = 5",
    "W = {}\nW['AA'] = 1\nW.update(UA=2)",
    "'A remark about T.'",
    "print(LIMIT, T.limit)",
    "def other():\n    T.limit = 5",
    "other = lambda: setattr(T, 'limit', 5)",
    "if __name__ == '__main__':\n    setattr(T, 'limit', 5)",
    "found = []\nfound.append(LIMIT)\nfound.extend(NAMES)",
    "F.col\nF.udf(len)",
    "view(name='more', version=1, events='flight.departed', key='tailnum')(helper)",
    "views.view(name='more', version=1, events='flight.departed', key='tailnum')(helper)",
    "class V:\n    def change(self):\n        self.limit = T.limit = 5",
    "assert T.limit",
]


@pytest.mark.parametrize("other", OTHERS)
def test_what_changes_nothing_of_it_does_not(tmp_path: Path, other: str) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    found = []
    for folder, text in ((first, ""), (second, other)):
        folder.mkdir()
        (folder / "views.py").write_text(f"{BEGIN}{text}\n{END}")
        found.append(load_views(folder, DECLARED).get("seen").fingerprint)
    assert found[0] == found[1]


def test_a_change_is_checked_as_the_rest_of_the_view(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition, match=r"it uses datetime\.datetime\.now") as refused:
        fingerprint(tmp_path, "from datetime import datetime\nT.limit = datetime.now()")
    assert refused.value.code == "VIEW_IMPURE"


def test_a_list_that_is_set_into_a_class_is_no_mutable_constant(tmp_path: Path) -> None:
    assert fingerprint(tmp_path, "T.names = ['AA']") != fingerprint(tmp_path, "T.names = ['UA']")
