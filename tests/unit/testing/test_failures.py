"""From a failing log to a small one, to a file, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from anabranch.core.errors import BadInput
from anabranch.testing import _saved_counterexample
from anabranch.testing._counterexample import KEY, LOOKBACK, Finding, Side, unequal
from anabranch.testing._properties import Property, Pruned, default_properties, replayed_properties
from anabranch.testing._rows import differences
from anabranch.testing._scenario import Fault, Log, Step
from anabranch.testing._shrinking import Shrinker
from anabranch.views.model.canonical import canonical
from support.landed_sample import FLIGHTS, Event, sample_views

pytestmark = pytest.mark.unit
VIEW = sample_views().get("departure_delays")
NOON = datetime(2013, 1, 1, 12, 0, 0, 7, tzinfo=UTC)


def event(number: int, **data: object) -> Event:
    return Event("flight.departed", NOON + timedelta(minutes=number), f"e{number}", data)


def log(count: int) -> Log:
    events = [event(n, dep_delay=n) for n in range(count)]
    return Log((Step((tuple(events[:5]), tuple(events[5:9])), Fault.LOSE), Step((tuple(events[9:]),), Fault.REPEAT)))


def needs(*numbers: int) -> Callable[[Sequence[Log]], list[Finding | None]]:
    """Fails as long as these events are there; counts how often it was asked."""

    def judge(logs: Sequence[Log]) -> list[Finding | None]:
        kept = [{e.id for e in each.events} for each in logs]
        return [
            Finding(KEY, each) if {f"e{n}" for n in numbers} <= ids else None
            for each, ids in zip(logs, kept, strict=True)
        ]

    return judge


def test_it_comes_down_to_the_events_that_matter() -> None:
    shrinker = Shrinker(needs(3, 17), 8, 30.0)
    small = shrinker.shrink(Finding(KEY, log(30))).log
    assert [e.id for e in small.events] == ["e3", "e17"]
    assert small.steps == (Step((small.events,)),)
    assert {e.time.minute for e in small.events} == {0}
    assert shrinker.tries < 200


def test_it_ends_in_time_with_the_smallest_so_far() -> None:
    def slow(logs: Sequence[Log]) -> list[Finding | None]:
        time.sleep(0.05)
        return needs(3, 17)(logs)

    started = time.monotonic()
    small = Shrinker(slow, 1, 0.2).shrink(Finding(KEY, log(30))).log
    assert time.monotonic() - started < 1
    assert len(small.events) <= 30


def test_another_failure_is_not_followed() -> None:
    def judge(logs: Sequence[Log]) -> list[Finding | None]:
        return [Finding("PROOF_OTHER", each) for each in logs]

    assert Shrinker(judge, 4, 5.0).shrink(Finding(KEY, log(12))).log == log(12)


def test_a_file_holds_everything(tmp_path: Path) -> None:
    data = {"day": date(1, 1, 1), "at": NOON, "list": [{"x": None}], "big": [2**63 - 1, Decimal("0.10")]}
    typed = Event(
        "flight.departed", NOON, "é\x00", data, 3, True, "s", "k", timedelta(days=-3, microseconds=1),
    )  # fmt: skip
    whole = Log((Step(((typed, event(1)), ()), Fault.LOSE), *log(12).steps))
    path = _saved_counterexample.write(tmp_path, VIEW, Finding(KEY, whole), 7)
    found = _saved_counterexample.read(path)
    assert found.log == whole
    assert (found.view, found.version, found.code, found.seed) == ("departure_delays", 1, KEY, 7)
    assert _saved_counterexample.write(tmp_path, VIEW, Finding(KEY, whole), 7) == path


def test_a_file_holds_the_day_that_failed(tmp_path: Path) -> None:
    finding = Finding(LOOKBACK, log(3), fields={"partition": date(2013, 1, 4)})
    path = _saved_counterexample.write(tmp_path, VIEW, finding, 7)
    assert _saved_counterexample.read(path).partition == date(2013, 1, 4)
    older = {name: value for name, value in json.loads(path.read_text()).items() if name != "partition"}
    path.write_text(json.dumps(older))
    assert _saved_counterexample.read(path).partition is None


def days_of(properties: Sequence[Property], of: Log) -> set[str]:
    names = (name for each in properties for name in each.cases(VIEW, of.landed(FLIGHTS)))
    return {name.split()[1] for name in names if name.startswith("PROOF_PRUNED ")}


def over_days(count: int) -> Log:
    events = [replace(event(n), time=NOON + timedelta(days=n)) for n in range(count)]
    return Log((Step((tuple(events),)),))


def test_a_replay_checks_all_days_of_its_log_and_the_one_that_failed() -> None:
    properties = default_properties(None, FLIGHTS, None)
    near = {f"2013-01-{day:02}" for day in range(1, 7)} | {"2012-12-31"}
    assert len(days_of(properties, over_days(5))) == 2
    assert days_of(replayed_properties(properties, None), over_days(5)) == near
    assert days_of(replayed_properties(properties, date(2014, 2, 3)), over_days(5)) == near | {"2014-02-03"}


def test_a_day_next_to_those_with_events_is_checked_too() -> None:
    with_events = {f"2013-01-{day:02}" for day in range(1, 6)}
    found = days_of([Pruned()], over_days(5))
    assert len(found & with_events) == 1
    assert found - with_events <= {"2012-12-31", "2013-01-06"}
    assert len(found) == 2


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"anabranch_proof": 2}', None])
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput) as caught:
        _saved_counterexample.read(path)
    assert caught.value.code == "REPLAY_UNREADABLE"


def test_a_file_is_readable_for_people(tmp_path: Path) -> None:
    content = json.loads(_saved_counterexample.write(tmp_path, VIEW, Finding(KEY, log(12)), 7).read_text())
    assert [step["then"] for step in content["steps"]] == ["LOSE", "REPEAT"]


ROW = {"origin": "JFK", "window_start": NOON, "flights": 1}


def test_only_the_cells_that_differ_are_shown() -> None:
    left, right = Side("a", [ROW]), Side("b", [{**ROW, "flights": 2}])
    found = unequal(KEY, VIEW, log(10), left, right)
    assert found is not None
    (difference,) = found.differs
    assert difference.cells == (("flights", 1, 2),)
    assert dict(difference.key) == {"origin": "JFK", "window_start": NOON}


def test_rows_are_compared_as_bags() -> None:
    other = {**ROW, "origin": None}
    assert unequal(KEY, VIEW, log(10), Side("a", [ROW, other]), Side("b", [other, ROW])) is None
    found = differences([ROW, ROW], [ROW], VIEW.key, list(ROW))
    assert [d.only for d in found] == ["left"]


@pytest.mark.parametrize(("one", "other", "same"), [
    (float("nan"), float("nan"), True), (0.0, -0.0, True), (0.1 + 0.2, 0.3, False), (None, "null", False),
    ([1, 2], [2, 1], False), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    (NOON, NOON.astimezone(), True), (b"a", bytearray(b"a"), True),
])  # fmt: skip
def test_cells_are_equal_when_readers_would_say_so(one: object, other: object, same: bool) -> None:
    assert (canonical(one) == canonical(other)) is same


@pytest.mark.parametrize("partition", [date.min, date.max])
def test_a_day_at_the_end_of_the_calendar_is_looked_at_too(partition: date) -> None:
    view = replace(VIEW, lookback=timedelta(days=2), lookahead=timedelta(days=2))
    (case,) = (each for name, each in Pruned(only=partition).cases(view, []).items() if str(partition) in name)
    assert (case.since is None, case.until is None) == (partition == date.min, partition == date.max)
