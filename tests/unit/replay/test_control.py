"""What people may do to a replay while it runs, waits, or is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anabranch.change.replay import cleanup
from anabranch.change.replay.control import active_replay, cancel, exclusive, set_pace
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import (
    CANCELLED,
    PUBLISHED,
    REFUSED,
    ControlRequest,
    ReplayState,
    list_states,
    read_control,
    read_state,
    state_file,
    write_state,
)
from anabranch.core.errors import BadInput, BrokenState, Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.operate.maintenance import maintain
from anabranch.operate.maintenance._report import Policy
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, sample_views

pytestmark = pytest.mark.unit
VIEW = sample_views().get("departure_delays")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def begun(settings: Settings, run: str = "one", at: int = 1) -> list[Path]:
    """A replay that was killed, with something everywhere."""
    ref = VersionRef(settings, VIEW.name, 1)
    write_state(settings, ReplayState(VIEW.name, 1, run, started_ms=at))
    folders = [ref.replay_tables / run, ref.replay_mirrors / run, ref.replay_checkpoints / run]
    for folder in folders:
        (folder / "below").mkdir(parents=True)
    return folders


def test_a_killed_one_is_cancelled_at_once_and_leaves_nothing(settings: Settings) -> None:
    folders = begun(settings)
    ended = cancel(VersionRef(settings, VIEW.name, 1), "bert")
    assert (ended.phase, "cancelled by bert" in ended.said) == (CANCELLED, True)
    assert not [folder for folder in folders if folder.parent.exists()]
    assert list_states(VersionRef(settings, VIEW.name, 1)) == [ended]


class Killed(BaseException):
    pass


def killed_cancel(settings: Settings, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Killed before the ``step``-th of: its state, three folders, the control file."""
    left = iter(range(step + 1))

    def stops(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*given: Any, **more: Any) -> Any:
            if next(left) == step:
                raise Killed
            return real(*given, **more)

        return act

    with monkeypatch.context() as patched:
        for name in ("write_state", "delete_control"):
            patched.setattr(cleanup, name, stops(getattr(cleanup, name)))
        patched.setattr("shutil.rmtree", stops(shutil.rmtree))
        with pytest.raises(Killed):
            cancel(VersionRef(settings, VIEW.name, 1), "bert")


def test_a_cancel_that_is_killed_before_the_end_is_stored_has_deleted_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = begun(settings)
    killed_cancel(settings, monkeypatch, 0)
    now = active_replay(VersionRef(settings, VIEW.name, 1))
    assert read_control(settings, now).cancelled_by == "bert", "whoever continues it ends it"
    assert all(folder.exists() for folder in folders)


@pytest.mark.parametrize("step", range(1, 5))
@pytest.mark.parametrize("completed_by", ["the same run", "the next cancel", "another run", "maintenance"])
def test_an_end_that_is_killed_while_files_are_deleted_is_completed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, step: int, completed_by: str
) -> None:
    ref, folders = VersionRef(settings, VIEW.name, 1), begun(settings)
    killed_cancel(settings, monkeypatch, step)
    assert [state.phase for state in list_states(ref)] == [CANCELLED]
    match completed_by:
        case "the same run":
            request = ReplayRequest(ViewHandle(settings, VIEW, FLIGHTS), "one")
            assert replay(None, request).phase == CANCELLED  # type: ignore[arg-type]
        case "the next cancel":
            with pytest.raises(BadInput, match="no replay"):
                cancel(ref, "bert")
        case "another run":
            with exclusive(ref, "two"):
                pass
        case _:
            assert not maintain(settings, Policy()).failed
    assert not [folder for folder in folders if folder.exists()]
    assert [path.name for path in state_file(ref, "one").parent.iterdir()] == ["one.json"]


def test_a_running_one_is_asked_to_end(settings: Settings) -> None:
    folders = begun(settings)
    with exclusive(VersionRef(settings, VIEW.name, VIEW.version), "one"):
        asked = cancel(VersionRef(settings, VIEW.name, 1), "bert")
        assert not asked.ended
        assert read_control(settings, asked).cancelled_by == "bert"
        assert all(folder.exists() for folder in folders)


def test_another_one_waits_its_turn(settings: Settings) -> None:
    begun(settings)
    with pytest.raises(Conflict) as error, exclusive(VersionRef(settings, VIEW.name, VIEW.version), "two"):
        pass
    assert error.value.code == "REPLAY_RUNNING"
    with (
        exclusive(VersionRef(settings, VIEW.name, VIEW.version), "one"),
        pytest.raises(Conflict),
        exclusive(VersionRef(settings, VIEW.name, VIEW.version), "one"),
    ):
        pass
    write_state(settings, ReplayState(VIEW.name, 1, "one", phase=PUBLISHED))
    with exclusive(VersionRef(settings, VIEW.name, VIEW.version), "two"):
        pass


def test_the_newest_is_the_one_that_began_last_whatever_the_clock_said(settings: Settings) -> None:
    for number, started in ((0, 5), (1, 900), (2, 100)):  # the clock was ahead, and was set right again
        write_state(settings, ReplayState(VIEW.name, 1, f"r{number}", started_ms=started, number=number))
    assert [each.run for each in list_states(VersionRef(settings, VIEW.name, 1))] == ["r0", "r1", "r2"]


def test_its_pace_is_changed_while_it_runs(settings: Settings) -> None:
    write_state(settings, ReplayState(VIEW.name, 1, "one", share=0.5))
    now = active_replay(VersionRef(settings, VIEW.name, 1))
    assert read_control(settings, now).pace == Pace(0.5)
    set_pace(settings, now, Pace(0.1, 20))
    assert read_control(settings, now).pace == Pace(0.1, 20)


def test_another_pace_takes_no_cancel_back(settings: Settings) -> None:
    begun(settings)
    with exclusive(VersionRef(settings, VIEW.name, VIEW.version), "one"):
        now = cancel(VersionRef(settings, VIEW.name, 1), "bert")
        set_pace(settings, now, Pace(0.1))
        assert read_control(settings, now) == ControlRequest(Pace(0.1), "bert")


@pytest.mark.parametrize("_", range(5))
def test_a_cancel_beside_other_paces_is_never_lost(settings: Settings, _: int) -> None:
    begun(settings)
    with exclusive(VersionRef(settings, VIEW.name, VIEW.version), "one"), ThreadPoolExecutor(8) as pool:
        now = active_replay(VersionRef(settings, VIEW.name, 1))
        acts = list[Callable[[], object]]()
        acts += [partial(set_pace, settings, now, Pace(share / 100)) for share in range(10, 50)]
        acts.insert(20, partial(cancel, VersionRef(settings, VIEW.name, 1), "bert"))
        for done in [pool.submit(act) for act in acts]:
            done.result()
        assert read_control(settings, now).cancelled_by == "bert"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"share": 7}'])
def test_what_can_not_be_read_is_no_reason_to_go_on(settings: Settings, text: str) -> None:
    begun(settings)
    now = active_replay(VersionRef(settings, VIEW.name, 1))
    set_pace(settings, now, Pace(0.1))
    state_file(VersionRef(settings, VIEW.name, 1), "one").with_suffix(".wish.1").write_text(text)
    with pytest.raises(BrokenState) as error:
        read_control(settings, now)
    assert error.value.code == "STANDING_UNREADABLE"
    state_file(VersionRef(settings, VIEW.name, 1), "one").write_text(text)
    ref = VersionRef(settings, VIEW.name, 1)
    for asked in (partial(active_replay, ref), partial(read_state, ref, "one")):
        with pytest.raises(BrokenState):
            asked()


def test_one_that_is_cancelled_before_its_next_try_has_the_lock_stays_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(settings)
    view = ViewHandle(settings, VIEW, FLIGHTS)

    @contextmanager
    def behind_a_cancel(ref: VersionRef, run: str) -> Iterator[None]:
        cancel(ref, "bert")
        with exclusive(ref, run):
            yield

    monkeypatch.setattr("anabranch.change.replay.runner.exclusive", behind_a_cancel)
    ended = replay(None, ReplayRequest(view, "one"))  # type: ignore[arg-type]  # an engine isn't needed any more
    assert (ended.phase, list_states(view)) == (CANCELLED, [ended])


def test_one_that_can_not_begin_has_ended(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is too short, for example: no later try can begin either."""

    def refused(*_: object) -> None:
        raise BadInput("LOG_SHORT", "the log is too short", next_step="replay from landing")

    monkeypatch.setattr("anabranch.change.replay.runner.Processes", lambda *_, **__: None)
    monkeypatch.setattr("anabranch.change.replay.runner._Replay", refused)
    view = ViewHandle(settings, VIEW, FLIGHTS)
    with pytest.raises(BadInput, match="too short"):
        replay(None, ReplayRequest(view, "one"))  # type: ignore[arg-type]
    assert [(state.phase, state.said) for state in list_states(view)] == [(REFUSED, "the log is too short")]
    with exclusive(view, "two"):
        pass


def test_what_isnt_under_way_can_not_be_steered(settings: Settings) -> None:
    for act in (active_replay, partial(cancel, by="bert")):
        with pytest.raises(BadInput) as error:
            act(VersionRef(settings, VIEW.name, 1))
        assert error.value.code == "NO_REPLAY"


@pytest.mark.parametrize(("view", "version"), [("../etc", 1), ("Delays", 1), ("delays", 0)])
def test_names_lead_nowhere_else(settings: Settings, view: str, version: int) -> None:
    with pytest.raises(BadInput):
        VersionRef(settings, view, version)
    with pytest.raises(BadInput):
        read_state(VersionRef(settings, "delays", 1), "../../x")


def test_it_says_how_fast_it_is(settings: Settings) -> None:
    now = ReplayState("delays", 1, "r", cut="flights@3", done=500, total=1000, seconds=10.0, event_seconds=86_400.0)
    assert str(now) == (
        "delays v1, the whole view: streaming; 500 of 1,000 records (50%), 50 per second, 8,640 times real time, "
        "about 10 s left; at flights@3"
    )


def test_it_says_how_little_other_work_leaves_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    now = ReplayState("delays", 1, "r", done=500, total=1000, seconds=10.0, cpu_seconds=0.8, share=0.25)
    assert now.progress.endswith(", about 10 s left, using 2% of the cores (at most 25%)")
    assert "cores" not in replace(now, phase="published").progress


def test_a_request_from_before_requests_were_numbered_is_obeyed(settings: Settings) -> None:
    """Commit 46c6225 kept it in one file beside the state, in the first format."""
    begun(settings)
    (state,) = list_states(VersionRef(settings, VIEW.name, 1))
    file = state_file(VersionRef(settings, VIEW.name, 1), "one").with_suffix(".wish.json")
    file.write_text('{"share": 0.5, "speed": 100.0, "cancelled_by": "bert"}')
    assert list_states(VersionRef(settings, VIEW.name, 1)) == [state]
    assert read_control(settings, state) == ControlRequest(Pace(0.5, 100.0), "bert")
    with exclusive(VersionRef(settings, VIEW.name, VIEW.version), "one"):
        set_pace(settings, state, Pace(0.25, 0.0))
    assert read_control(settings, state) == ControlRequest(Pace(0.25, 0.0), "bert")
    assert cancel(VersionRef(settings, VIEW.name, 1), "bert").phase == CANCELLED
    assert not file.exists()
