"""Declarations read from source say the same as the registry, and no code of an author runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from anabranch.apps.airflow.static_views import declared_views, newest_first, read_views, reprocess_dag
from anabranch.contracts import load_declarations
from anabranch.core.project_folder import project_root
from anabranch.views import load_views
from anabranch.views.model.definition import duration

pytestmark = pytest.mark.unit
JOBS = project_root() / "spark_jobs"


def test_the_source_says_what_the_registry_says() -> None:
    registry = load_views(JOBS / "views", load_declarations(JOBS / "contracts"))
    registered = [
        (v.name, v.version, v.events, v.key, v.partition_by, v.lookback, v.lookahead, v.kappa) for v in registry
    ]
    read = [
        (v.name, v.version, v.events, v.key, v.partition_by, duration(v.lookback), duration(v.lookahead), v.kappa)
        for versions in declared_views(JOBS / "views").values()
        for v in versions
    ]
    assert len(read) >= 3
    assert sorted(read, key=str) == sorted(registered, key=str)


def write(folder: Path, name: str, source: str) -> Path:
    (folder / name).write_text(source)
    return folder


def test_versions_come_newest_first_and_constants_are_followed(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        "many.py",
        """
from datetime import timedelta
from anabranch import views
DEPARTED = "flight.departed"
BACK = "2 days"

@views.view(name="delays", version=1, events=DEPARTED, key="origin", partition_by="t", lookback=BACK)
def first(departed):
    '''The first.'''

@views.view(name="delays", version=2, events=[DEPARTED], key=("origin",), lookback=timedelta(hours=3))
def second(departed):
    '''The second.'''

def helper():
    return view(name="never", version=1, events=["x"], key=["y"])
""",
    )
    newest, oldest = declared_views(folder)["delays"]
    assert (newest.version, newest.doc, newest.kappa, newest.lookback) == (2, "The second.", True, "timedelta(hours=3)")
    assert (oldest.version, oldest.events, oldest.key, oldest.lookback) == (1, (DEPARTED,), ("origin",), "2 days")
    assert list(declared_views(folder)) == ["delays"]


DEPARTED = "flight.departed"


@pytest.mark.parametrize(
    "source",
    [
        "def broken(:",
        "@view(name='../up', version=1, events=['e'], key=['k'])\ndef f(e): ...",
        "@view(name='a b', version=1, events=['e'], key=['k'])\ndef f(e): ...",
        "@view(name='a', version=0, events=['e'], key=['k'])\ndef f(e): ...",
        "@view(name='a', version='1', events=['e'], key=['k'])\ndef f(e): ...",
        "@view(name=UNKNOWN, version=1, events=['e'], key=['k'])\ndef f(e): ...",
        "@view(name='a', events=['e'], key=['k'])\ndef f(e): ...",
        "\x00",
    ],
)
def test_what_can_not_be_read_is_left_out_with_an_error(
    tmp_path: Path, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "bad.py", source)
    write(tmp_path, "good.py", "@view(name='good', version=1, events=['e'], key=['k'])\ndef f(e): ...")
    assert list(declared_views(tmp_path)) == ["good"]
    assert "bad.py" in caplog.text


def test_constants_with_a_type_and_names_from_elsewhere_take_no_dag_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A DAG needs name, version, and whether there are days; the rest is shown as it is written."""
    write(
        tmp_path,
        "typed.py",
        """
from typing import Final
from names import ARRIVED, DAY, REFRESH
import names
NAME: Final = "delays"
FIRST = VERSION = 3
DEPARTED: str
DEPARTED: Final[str] = "flight.departed"

@view(name=NAME, version=VERSION, events=[DEPARTED, ARRIVED, names.LEFT], key=["origin"], partition_by=DAY,
      refresh=REFRESH)
def typed(departed, arrived, left): ...
""",
    )
    (view,) = declared_views(tmp_path)["delays"]
    assert (view.version, view.events) == (3, ("flight.departed", "ARRIVED", "names.LEFT"))
    assert (view.kappa, caplog.text) == (False, "")


def test_a_view_that_can_not_be_read_costs_no_other_of_its_file_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = "@view(name='a', version=V, events=['e'], key=['k'])\ndef f(e): ...\n"
    write(tmp_path, "a.py", f"from names import V\n{one}{one.replace('V', '2').replace('(e)', '(e, x)')}")
    found, unread = read_views(tmp_path)
    assert [view.version for view in found["a"]] == [2]
    assert unread == {f"{tmp_path / 'a.py'}:2": "version (V) is no literal, and no constant of this file"}
    assert declared_views(tmp_path).keys() == {"a"}
    assert "a.py:2: no DAG for what is declared there: version (V)" in caplog.text


def test_no_code_of_an_author_runs(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    good = "@view(name='good', version=1, events=['e'], key=['k'])\ndef f(e): ..."
    write(tmp_path, "hostile.py", f"open({str(trace)!r}, 'w')\n{good}")
    assert list(declared_views(tmp_path)) == ["good"]
    assert not trace.exists()


@pytest.mark.parametrize(
    ("kinds", "retired", "dags"),
    [
        ("dd", (), {1: "reprocess_a", 2: "reprocess_a"}),
        ("dk", (), {1: "reprocess_a.v1", 2: "reprocess_a"}),
        ("ddkk", (), {1: "reprocess_a.v2", 2: "reprocess_a.v2", 3: "reprocess_a", 4: "reprocess_a"}),
        ("kdk", (), {1: "reprocess_a", 2: "reprocess_a.v2", 3: "reprocess_a"}),
        ("dk", (2,), {1: "reprocess_a"}),
        ("d", (), {9: "reprocess_a"}),
    ],
    ids=["one kind", "its days were left", "two of each", "by turns", "the newest is retired", "not declared"],
)
def test_a_version_is_done_again_by_the_dag_whose_form_offers_it(
    tmp_path: Path, kinds: str, retired: tuple[int, ...], dags: dict[int, str]
) -> None:
    """Days (d) and kappa (k) have DAGs of their own: a form offers the versions of one kind."""
    partition = {"d": ", partition_by='t'", "k": ""}
    declared = "@view(name='a', version={0}, events=['e'], key=['k']{1})\ndef f{0}(e): ...\n"
    write(tmp_path, "a.py", "".join(declared.format(n, partition[kind]) for n, kind in enumerate(kinds, 1)))
    left = [each for each in declared_views(tmp_path)["a"] if each.version not in retired]
    assert {version: reprocess_dag("a", left, version) for version in dags} == dags
    offered = {f"reprocess_{each.title}": each.kappa for each in newest_first(left)}
    assert all(offered[dag] == each.kappa for each in left for dag in [reprocess_dag("a", left, each.version)])
