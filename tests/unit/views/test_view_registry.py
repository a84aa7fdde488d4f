"""What a declaration alone can get wrong, refused before Spark is there, with the reason and the place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Topic, load_declarations
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.core.project_folder import project_root
from anabranch.views import Registry, load_views, view
from anabranch.views.model.definition import duration
from anabranch.views.registry import collecting, readable_views

pytestmark = pytest.mark.unit
DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
HEAD = """\
from anabranch.views import view
from pyspark.sql import functions as F

"""
GOOD = {
    "name": "'counted'",
    "version": "1",
    "events": "['flight.departed']",
    "key": "['hour']",
    "partition_by": "'hour'",
}


def load(folder: Path, text: str, name: str = "one") -> Registry:
    (folder / f"{name}.py").write_text(text)
    return load_views(folder, DECLARED)


def declared(parameters: str = "departed", **changes: str) -> str:
    given = ", ".join(f"{name}={value}" for name, value in {**GOOD, **changes}.items())
    return f"{HEAD}@view({given})\ndef counted({parameters}):\n    return departed\n"


def test_a_declaration_is_a_view_with_its_place(tmp_path: Path) -> None:
    (found,) = load(tmp_path, declared(lookback="'36 hours'"))
    assert (found.name, found.version, found.key, found.partition_by) == ("counted", 1, ("hour",), "hour")
    assert found.lookback == timedelta(hours=36)
    assert (found.origin.file, found.origin.line) == (str(tmp_path / "one.py"), 4)
    assert len(found.fingerprint) == 16
    rows: Any = object()
    assert found(rows) is rows


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"name": "'Counted'"}, "VIEW_NAME", "'Counted'"),
        ({"name": "'../counted'"}, "VIEW_NAME", "'../counted'"),
        ({"name": "'counted; drop'"}, "VIEW_NAME", "drop"),
        ({"name": "7"}, "VIEW_NAME", "7"),
        ({"version": "0"}, "VIEW_NAME", "0 isn't a valid version"),
        ({"version": "True"}, "VIEW_NAME", "True"),
        ({"version": "'1'"}, "VIEW_NAME", "'1'"),
        ({"events": "[]"}, "VIEW_EVENTS", "[]"),
        ({"events": "['flight.departed', 'flight.departed']"}, "VIEW_EVENTS", "once"),
        ({"events": "['Flight']"}, "VIEW_EVENTS", "Flight"),
        ({"events": "['flight.boarded']"}, "VIEW_EVENTS", "flight.boarded"),
        ({"key": "[]"}, "VIEW_KEY", "[]"),
        ({"key": "['hour', 'hour']"}, "VIEW_KEY", "once"),
        ({"key": "['hour', 'a b']"}, "VIEW_KEY", "a b"),
        ({"key": "['origin']"}, "VIEW_KEY", "hour isn't in the key"),
        ({"lookback": "'a day'"}, "VIEW_DURATION", "a day"),
        ({"lookahead": "'-1 hours'"}, "VIEW_DURATION", "-1 hours"),
        ({"lookahead": "'1 month'"}, "VIEW_DURATION", "1 month"),
        ({"lookback": "5"}, "VIEW_DURATION", "5"),
        ({"lookback": "__import__('datetime').timedelta(-1)"}, "VIEW_DURATION", "negative"),
        ({"partition_by": "None", "lookback": "'1 day'"}, "VIEW_DURATION", "every event"),
        ({"refresh": "'hourly'"}, "VIEW_REFRESH", "hourly"),
        ({"tables": "['weather.observed']", "parameters": "departed, weather"}, "VIEW_TABLES", "refresh='partitions'"),
        ({"events": "[]", "tables": "['weather.observed']", "refresh": "'partitions'"}, "VIEW_TABLES", "at least one"),
        ({"closes": "True", "partition_by": "None"}, "VIEW_REFRESH", "add partition_by"),
        ({"parameters": "departed, arrived"}, "VIEW_ARGUMENTS", "(departed, arrived)"),
        ({"parameters": ""}, "VIEW_ARGUMENTS", "()"),
    ],
)
def test_a_wrong_declaration_is_refused_at_its_place(
    tmp_path: Path, changes: dict[str, str], code: str, said: str
) -> None:
    with pytest.raises(BadDefinition) as caught:
        load(tmp_path, declared(**changes))
    assert caught.value.code == code
    assert f"{tmp_path / 'one.py'}:4: " in str(caught.value)
    assert said in str(caught.value)
    assert (caught.value.fields["file"], caught.value.fields["definition"]) == (str(tmp_path / "one.py"), 4)


def test_a_version_is_declared_once(tmp_path: Path) -> None:
    load(tmp_path, declared())
    with pytest.raises(BadDefinition) as caught:
        load(tmp_path, declared(), name="two")
    assert caught.value.code == "VIEW_TWICE"
    assert "one.py:4" in str(caught.value)
    assert "two.py:4" in str(caught.value)


def test_also_in_one_file_a_version_is_declared_once(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition) as caught:
        load(tmp_path, declared() + declared())
    assert caught.value.code == "VIEW_TWICE"


def test_two_versions_may_share_a_file_and_a_function_name(tmp_path: Path) -> None:
    registry = load(tmp_path, declared() + declared(version="2"))
    assert [v.version for v in registry] == [1, 2]
    assert registry.newest("counted").version == 2
    assert registry.get("counted", 1).origin.line == 4
    topic = registry.topic(registry.get("counted"))
    assert isinstance(topic, Topic)
    assert topic.name == "flights"


def test_an_unknown_view_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    registry = load(tmp_path, declared())
    for wanted in (("missing", None), ("counted", 9)):
        with pytest.raises(BadInput, match="counted v1") as caught:
            registry.get(*wanted)
        assert caught.value.code == "VIEW_UNKNOWN"


@pytest.mark.parametrize("text", ["def broken(:\n", "1 / 0\n", declared(), declared(events="['no.such.event']")])
def test_a_file_that_cant_be_read_costs_its_own_views_only(tmp_path: Path, text: str) -> None:
    load(tmp_path, declared())
    (tmp_path / "two.py").write_text(declared(name="'later'") + text)
    with pytest.raises((SyntaxError, ZeroDivisionError, BadDefinition)):
        load_views(tmp_path, DECLARED)
    registry = readable_views(tmp_path, DECLARED)
    assert ([view.name for view in registry], list(registry.unread)) == (["counted"], [str(tmp_path / "two.py")])
    with pytest.raises(BadInput, match=r"two\.py can't be read"):
        registry.get("later")


def test_a_view_without_a_file_is_refused() -> None:
    scope = {"view": view}
    text = (
        "@view(name='typed', version=1, events='flight.departed', key='k')\ndef typed(departed):\n    return departed"
    )
    with pytest.raises(BadDefinition) as caught:
        exec(text, scope)  # noqa: S102 - what a prompt does
    assert caught.value.code == "VIEW_SOURCE"


def test_collecting_keeps_views_of_a_test_apart() -> None:
    with collecting() as outer:
        with collecting() as found:

            @view(name="inner", version=1, events="flight.departed", key="tailnum")
            def inner(departed):  # type: ignore[no-untyped-def]
                return departed

        assert [v.name for v in found] == ["inner"]
        assert outer == []
    assert inner.kappa


def test_the_samples_are_loaded_twice_alike() -> None:
    folder = project_root() / "spark_jobs" / "views"
    first, second = load_views(folder, DECLARED), load_views(folder, DECLARED)
    assert [v.name for v in first] == ["aircraft_now", "departure_delays", "route_day"]
    assert list(first) == list(second)
    assert str(first.get("route_day").origin).startswith("spark_jobs/views/route_day.py:")


@pytest.mark.parametrize(("text", "hours"), [("0 hours", 0), ("1 hour", 1), ("36 hours", 36), ("2 weeks", 336)])
def test_durations(text: str, hours: int) -> None:
    assert duration(text) == timedelta(hours=hours)
