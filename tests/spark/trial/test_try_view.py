"""``anabranch try``: a view that nobody has declared runs over landed events in both paths, and leaves no trace."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
import pytest
from anabranch.apps.cli.main import app
from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings, load_settings
from anabranch.operate.trial import _run_trial
from anabranch.views.model.handle import ViewHandle
from anabranch.views.registry import views_in
from anabranch.views.selection.inputs import rows_at
from support import sample_events
from support.landed_sample import ALL_DECLARED, DECLARED, FLIGHTS, Landing, gallery
from support.nine_days import START, flights
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SQL = """\
-- view: carrier_day
-- version: 1
-- events: flight.departed
-- key: day, origin
-- partition by: day

SELECT to_date(window.start) AS day, origin, count(*) AS flights, sum(dep_delay) AS minutes
FROM flight_departed
GROUP BY window(event_time, '1 day'), origin
"""
PYTHON = '''\
"""Two views."""

from anabranch.views import view
from pyspark.sql import functions as F


@view(name="aircraft", version=1, events="flight.departed", key="tailnum")
def aircraft(departed):
    """A kappa view."""
    return departed.groupBy("tailnum").agg(F.count("*").alias("flights"), F.max("event_time").alias("last"))


@view(name="differs", version=1, events="flight.departed", key=["day", "origin"], partition_by="day")
def differs(departed):
    """Its stream forgets the flights of one origin on one day, which a batch has."""
    if departed.isStreaming:
        departed = departed.where("origin = 'JFK' OR to_date(event_time) != DATE '2013-01-02'")
    daily = departed.groupBy(F.window("event_time", "1 day"), "origin").count()
    return daily.select(F.to_date("window.start").alias("day"), "origin", F.col("count").alias("flights"))
'''
DAYS = [date(2013, 1, 1), date(2013, 1, 2), date(2013, 1, 3)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A platform with landed events, and files where the view of the same name keeps its rows and its state."""
    settings = load_settings(home=Path(tmp_path_factory.mktemp("live")), shuffle_partitions=1)
    landing = Landing(settings)
    landing.land(*flights())
    assert sum(bool(row["late"]) for row in landing.rows) > 10
    for place in ("lake/views/carrier_day/v1/speed/_delta_log/0.json", "checkpoints/speed/carrier_day/v1/metadata"):
        path = settings.home / place
        path.parent.mkdir(parents=True)
        path.write_text("live")
    return settings


@pytest.fixture(autouse=True)
def untouched(live: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """No test changes a file of the live home, or leaves a temporary one."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    def listing() -> dict[str, tuple[int, int]]:
        stats = ((path, path.lstat()) for path in [live.home, *live.home.rglob("*")])
        return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in stats}

    before = listing()
    yield
    assert listing() == before
    assert list(scratch.glob("anabranch-*")) == []


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "carrier_day.sql").write_text(SQL)
    (tmp_path / "two.py").write_text(PYTHON)
    return tmp_path


def test_it_has_the_rows_and_the_certificates_that_the_platform_would_have(
    spark: SparkSession, live: Settings, files: Path
) -> None:
    found = anabranch.try_view(
        files / "carrier_day.sql", days="2013-01-01..2013-01-03", settings=live, declarations=DECLARED, spark=spark
    )
    assert found.days == tuple(DAYS)
    assert found.equal
    assert found.slices > 1
    assert [(c.partition, c.equal) for c in found.certificates] == [(day, True) for day in DAYS]
    (view,) = views_in(files / "carrier_day.sql")
    expected = rows_at(spark, ViewHandle(live, view, FLIGHTS), cut_at(live, FLIGHTS), DAYS, late=True).drop(
        "partition_date"
    )
    assert found.rows.column_names == ["day", "origin", "flights", "minutes"]
    key = [("day", "ascending"), ("origin", "ascending")]
    assert found.rows.sort_by(key).to_pylist() == expected.toArrow().sort_by(key).to_pylist()
    departures = [START + timedelta(minutes=71 * n) for n in range(180)]
    assert found.events == sum(at.date() in DAYS for at in departures)
    assert 0 < found.late < found.events
    assert found.late == sum(certificate.late_events for certificate in found.certificates)
    assert found.cut == cut_at(live, FLIGHTS)


def test_a_kappa_view_is_tried_as_a_whole(spark: SparkSession, live: Settings, files: Path) -> None:
    found = anabranch.try_view(files / "two.py", name="aircraft", settings=live, declarations=DECLARED, spark=spark)
    assert (found.equal, found.days, [c.partition for c in found.certificates]) == (True, (), [None])
    assert sum(row["flights"] for row in found.rows.to_pylist()) == found.events == 180


def test_the_command_says_where_the_paths_differ_and_fails(
    spark: SparkSession, live: Settings, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(live.home))
    asked = ["try", str(files / "two.py"), "--view", "differs", "--days", "2013-01-01..2013-01-02"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 1
    assert "2 of 2" not in shown.stdout
    assert "DIFFERS: 2013-01-02: 1 rows as a stream, 2 as a batch (1 of 2 days equal)" in shown.stdout
    assert "missing" in shown.stdout
    assert "EWR" in shown.stdout


def test_the_command_as_json(spark: SparkSession, live: Settings, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark is not None, "the command takes the session of this process"
    monkeypatch.setenv("ANABRANCH_HOME", str(live.home))
    asked = ["try", str(files / "two.py"), "--view", "differs", "--days", "2013-01-02", "--rows", "1", "--json"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 1, shown.output
    found = json.loads(shown.stdout)
    assert (found["equal"], found["certificates"]) == (False, {"2013-01-02": False})
    assert (found["row_count"], len(found["rows"])) == (2, 1)
    assert found["batch_seconds"] > 0
    assert found["stream_seconds"] > 0
    (difference,) = found["differences"]
    assert (difference["key"], difference["kind"]) == ({"day": "2013-01-02", "origin": "EWR"}, "missing")


@pytest.mark.parametrize(
    ("file", "days", "code", "said"),
    [
        ("carrier_day.sql", "2014-01-01", "DAYS_EMPTY", "choose from 2013-01-01..2013-01-09"),
        ("carrier_day.sql", "", "DAYS_EMPTY", "no days are given"),
        ("carrier_day.sql", "2013-01-03..2013-01-01", "RANGE_REVERSED", "write 2013-01-01..2013-01-03"),
        ("carrier_day.sql", "January", "DAY_UNREADABLE", "'January' are no days"),
        ("two.py", "2013-01-01", "VIEW_NAME_NEEDED", "--view: aircraft, differs"),
        ("none.py", "2013-01-01", "FILE_UNREADABLE", "none.py is no .py or .sql file"),
        ("broken.py", "2013-01-01", "VIEW_FILE", "broken.py:1: "),
        ("raises.py", "2013-01-01", "VIEW_FILE", "it raised ZeroDivisionError"),
        ("broken.sql", "2013-01-01", "VIEW_HEADER", "there is no header"),
        ("empty.py", "2013-01-01", "VIEW_NAME_NEEDED", "declares no view"),
    ],
)
def test_what_is_wrong_is_said(live: Settings, files: Path, file: str, days: str, code: str, said: str) -> None:
    for name, text in {"broken.py": "def f(:", "raises.py": "1 / 0", "broken.sql": "SELECT 1", "empty.py": ""}.items():
        (files / name).write_text(text)
    with pytest.raises(AnabranchError) as refused:
        anabranch.try_view(files / file, days=days, settings=live, declarations=DECLARED)
    assert refused.value.code == code
    assert said in str(refused.value)


def test_what_registration_refuses_is_refused(spark: SparkSession, live: Settings, files: Path) -> None:
    (files / "carrier_day.sql").write_text(SQL.replace("sum(dep_delay)", "last(dep_delay)"))
    with pytest.raises(AnabranchError) as refused:
        anabranch.try_view(files / "carrier_day.sql", days=DAYS, settings=live, declarations=DECLARED, spark=spark)
    assert refused.value.code == "VIEW_ORDER"


def test_without_landed_events_it_says_so(settings: Settings, files: Path) -> None:
    with pytest.raises(AnabranchError) as refused:
        anabranch.try_view(files / "carrier_day.sql", days=DAYS, settings=settings, declarations=DECLARED)
    assert refused.value.code == "LANDING_EMPTY"


def test_an_interrupted_trial_leaves_no_file_and_no_stream(
    spark: SparkSession, live: Settings, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = spark._jsparkSession
    before = session.sharedState().activeStreamingQueries().size()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_run_trial, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        anabranch.try_view(files / "carrier_day.sql", days=DAYS, settings=live, declarations=DECLARED, spark=spark)
    assert session.sharedState().activeStreamingQueries().size() == before


def test_an_edited_module_is_read_again(live: Settings, files: Path) -> None:
    from anabranch.operate.trial._view_file import view_of

    first = view_of(files / "two.py", "aircraft")
    (files / "two.py").write_text(PYTHON.replace('F.max("event_time")', 'F.min("event_time")'))
    assert view_of(files / "two.py", "aircraft").fingerprint != first.fingerprint


def test_landed_events_are_what_a_view_gets(spark: SparkSession, live: Settings) -> None:
    found = anabranch.landed_events(
        "flight.departed", days="2013-01-02", settings=live, declarations=DECLARED, spark=spark
    )
    assert {"event_time", "event_id", "log_offset", "origin", "dep_delay"} <= set(found.columns)
    times = [row.event_time.replace(tzinfo=UTC) for row in found.select("event_time").collect()]
    every = [START + timedelta(minutes=71 * n) for n in range(180)]
    assert sorted(times) == [at for at in every if at.date() == date(2013, 1, 2)]
    assert times[0] < datetime(2013, 1, 3, tzinfo=UTC)
    everything = anabranch.landed_events("flight.departed", settings=live, declarations=DECLARED, spark=spark)
    assert everything.count() == 180
    with pytest.raises(AnabranchError) as unknown:
        anabranch.landed_events("flight.lost", settings=live, declarations=DECLARED, spark=spark)
    assert unknown.value.code == "EVENT_TYPE_UNKNOWN"


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["departed_in_weather", "seats_flown", "never_arrived"])
def test_views_over_several_topics_tables_and_closed_windows(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Of the gallery, over three days of real flights with their weather and planes."""
    settings = load_settings(home=Path(tmp_path_factory.mktemp("several")), shuffle_partitions=1)
    events = {"flights": sample_events.flights(3, 7, late=0.01)}
    events |= {topic: getattr(sample_events, topic)(3) for topic in ("weather", "planes")}
    for topic, made in events.items():
        Landing(settings, ALL_DECLARED.topics[topic]).land(*sample_events.sliced(made, 3, 3))
    view = gallery().get(name)
    days = None if view.kappa else "2013-01-01..2013-01-03"
    found = anabranch.try_view(view, days=days, settings=settings, declarations=ALL_DECLARED, spark=spark)
    assert found.equal, found
    assert found.rows.num_rows > 0
