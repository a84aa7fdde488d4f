"""Landed events for a notebook, as a view's function gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.compute.batch.rebuild import cut_at
from anabranch.compute.speed.view_stream import landed_days
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import landing_table
from anabranch.operate.trial._chosen_days import Days, check_landed, read_days
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.project import Project
from anabranch.views.selection.inputs import events_at, frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from anabranch.contracts.model.declarations import Declarations


def landed_events(
    event_type: str,
    *,
    days: Days = None,
    settings: Settings | None = None,
    declarations: Declarations | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The valid events of one type up to the newest epoch, late ones included, as a view's function gets them: in the
    shape of the newest contract. ``days``: only those with an event time on these days (UTC).

    ``spark``: default is the session of this process, or a new one, which goes on. Lazy: nothing is read before the
    DataFrame is used; it keeps to the files that landing has now. Writes nothing.

    Raises BadInput EVENT_TYPE_UNKNOWN, DAY_UNREADABLE, RANGE_REVERSED, DAYS_EMPTY or SESSION_UNFIT; TryAgain
    LANDING_EMPTY.
    """
    config = settings or load_settings()
    topic = (declarations or Project(config).declarations()).topic_of(event_type)
    wanted = read_days(days)
    events = View("landed_events", 1, (event_type,), ("event_time",), _as_they_are, partition_by="event_time")
    cut = cut_at(config, topic)
    if wanted is not None:
        check_landed(wanted, landed_days(events, topic, {topic.name: landing_table(config, topic.name)}))
    rows = events_at(_session(config, spark), ViewHandle(config, events, topic), cut, wanted, late=True)
    (found,) = frames(rows, events, topic)
    return found


def _session(settings: Settings, given: SparkSession | None) -> SparkSession:
    from anabranch.core.engine.spark import existing_session, session

    return existing_session(given) or session(settings, "anabranch-notebook")


def _as_they_are(events: DataFrame) -> DataFrame:
    return events
