"""Each invariant of the design, broken on purpose: what guards it turns red.

One test per invariant, numbered as the design numbers them. A test that takes a guard away first shows that the same
steps are green with it; what the guards do in detail is tested where they live.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.compute.speed import view_stream
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Contract, Topic
from anabranch.core.errors import AnabranchError, BadDefinition, BadInput, BrokenState
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing import checkpoint, stream, writer
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.id_index import IdIndex
from anabranch.lake import latest_verified_commit
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef, landing_checkpoint, landing_table
from anabranch.serve import read
from anabranch.views import View, load_views
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection import inputs as view_inputs
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException
from support.landed_sample import DECLARED, FLIGHTS, Event, Landing, sample_views
from support.sent_records import raw_producer
from support.small_halves import DAYS as SERVED_DAYS
from support.small_halves import KEYS, VIEW, merge_speed, rows_at, start_speed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.spark]

DELAYS = sample_views().get("departure_delays")
DAYS = [date(2013, 1, 1)]
PARCELS = Contract(
    "parcel.seen",
    1,
    {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}},
)


def departed(at: str, origin: str = "JFK") -> Event:
    time = datetime.fromisoformat(f"2013-01-01 {at}").replace(tzinfo=UTC)
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", time, f"{at}{origin}", data)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home", shuffle_partitions=1)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land([departed("05:10")], [departed("05:20"), departed("06:10", "EWR")])
    return found


def raises(code: str, kind: type[AnabranchError] = AnabranchError) -> Any:
    return pytest.raises(kind, match=rf"\[{code}\]")


@contextmanager
def without(target: object, name: str, put: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, name, put)
        yield


# 1. Every record of the log is in landing or in quarantine exactly once; the offsets have no gap and no repeat.


@pytest.fixture
def parcels(broker: Settings, tmp_path: Path) -> tuple[Settings, Topic]:
    topic = Topic(f"parcels_{secrets.token_hex(4)}", (PARCELS,), partitions=2, allowed_lateness=timedelta(hours=1))
    create_missing(broker, [topic])
    return broker.model_copy(update={"home": tmp_path / "home"}), topic


def parcel(number: int, **more: Any) -> bytes:
    body = {"specversion": "1.0", "id": str(number), "source": "/test", "type": "parcel.seen", "subject": "parcel"}
    return json.dumps({**body, "time": "2020-01-01T12:00:00Z", "data": {"n": 1}, **more}).encode()


def send(settings: Settings, topic: Topic, values: Sequence[bytes]) -> None:
    producer = raw_producer(settings)
    for number, value in enumerate(values):
        producer.produce(topic.name, value=value, partition=number % 2)
    assert producer.flush(20) == 0


def test_1_a_record_that_is_lost_or_doubled_is_seen(
    spark: SparkSession, parcels: tuple[Settings, Topic], settings: Settings
) -> None:
    broker, topic = parcels
    land: Callable[[], Any] = lambda: stream.start(spark, broker, topic, once=True).awaitTermination(240)  # noqa: E731
    send(broker, topic, [parcel(1), parcel(2), b"{", parcel(1)])
    assert land()
    assert verify(broker, topic).sound

    # Duplicates are dropped rather than landed as such: nothing is landed rather than too little.
    send(broker, topic, [parcel(2), parcel(3), parcel(1)])
    before = DeltaTable(landing_table(broker, topic.name)).version()
    dropped: Callable[..., Any] = lambda rows, repeats: rows.filter(pa.array(~repeats))  # noqa: E731
    with without(writer, "mark_duplicates", dropped), pytest.raises(Exception, match="EPOCH_INCOMPLETE"):
        land()
    assert DeltaTable(landing_table(broker, topic.name)).version() == before
    assert land()
    assert verify(broker, topic).sound

    table = DeltaTable(landing_table(broker, topic.name))
    sound = table.version()
    one = table.to_pyarrow_table().slice(0, 1)
    table.delete(f'"partition" = {one["partition"][0]} and "offset" = {one["offset"][0]}')
    assert not verify(broker, topic).sound
    table.restore(sound)
    write_deltalake(table, one, mode="append")
    assert not verify(broker, topic).sound
    table.restore(sound)

    # An index that knows nothing: events are landed twice, and the proof counts them.
    send(broker, topic, [parcel(2), parcel(4), parcel(1)])
    with without(IdIndex, "known", lambda _, hashes: np.zeros(hashes.shape[1], np.bool_)):
        assert land()
    proof = verify(broker, topic)
    assert (proof.sound, proof.doubled) == (False, 2)


# 2. Every commit to every view table names its cut, its definition's fingerprint and its batch.


def test_2_a_commit_that_names_nothing_is_not_believed(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    uri = VersionRef(settings, DELAYS.name, 1).speed_table
    table = DeltaTable(uri)
    named = table.version()
    rows = table.to_pyarrow_table()
    DeltaTable(uri).optimize.compact()
    assert certify(spark, delays, DAYS)[0].equal

    write_deltalake(uri, rows.slice(0, 1), mode="append")  # somebody's own idea of a row
    landing.land([departed("05:40")])
    for use in (
        lambda: certify(spark, delays, DAYS),
        lambda: catch_up(spark, delays),
        lambda: read(DELAYS.name, settings=settings),
    ):
        with raises("COMMIT_UNNAMED", BrokenState):
            use()
    DeltaTable(uri).restore(named)
    catch_up(spark, delays)
    assert certify(spark, delays, DAYS)[0].equal


# 3. Equal cut, equal definition: equal rows, in both paths, however the stream was sliced, restarted or killed.


def test_3_paths_that_differ_are_not_certified(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    ref = VersionRef(settings, DELAYS.name, 1)
    delays = ViewHandle(settings, DELAYS, FLIGHTS)

    def deaf(view: View, inputs: Any) -> Any:
        return view_inputs.rows_of(view, [frame.where("event_id <> '05:20JFK'") for frame in inputs])

    with without(view_stream, "rows_of", deaf):  # the stream misses an event
        catch_up(spark, delays)
    assert [c.equal for c in certify(spark, delays, DAYS)] == [False]

    shutil.rmtree(ref.speed_checkpoint)
    catch_up(spark, delays)
    assert [c.equal for c in certify(spark, delays, DAYS)] == [True]

    # An epoch that a rate limit splits could lose rows to the watermark: the stream stops before it does.
    landing.land([departed("07:10"), replace(departed("08:10"), time=datetime(2013, 1, 2, 8, 10, tzinfo=UTC))])
    with without(view_stream, "_UNLIMITED", "1"), raises("EPOCH_SPLIT", BrokenState):
        catch_up(spark, delays)
    # So does a new one that begins with the table's files instead of its commits.
    shutil.rmtree(ref.speed_checkpoint)
    with (
        without(view_stream, "_SHORT_LOG", 0),
        without(view_stream, "_UNLIMITED", "1"),
        raises("EPOCH_SPLIT", BrokenState),
    ):
        catch_up(spark, delays)


# 4. A reader never sees a refresh in the making, never two versions in one read, never a cut older than one it saw.


def test_4_a_refresh_in_two_steps_is_seen_by_the_poller(tmp_path: Path) -> None:
    def torn(settings: Settings, epoch: int) -> None:
        """What a writer without an atomic commit would do: take the old rows away, then bring the new ones."""
        uri = VersionRef(settings, VIEW, 1).speed_table
        note = {"userMetadata": covering_note(uri, epoch)}
        from deltalake import CommitProperties

        table = DeltaTable(uri)
        table.delete(commit_properties=CommitProperties(custom_metadata=note))
        write_deltalake(
            uri, rows_at(epoch, SERVED_DAYS), mode="append", commit_properties=CommitProperties(custom_metadata=note)
        )

    assert odd_reads(tmp_path / "whole", lambda settings, epoch: merge_speed(settings, epoch, SERVED_DAYS)) == 0
    assert odd_reads(tmp_path / "torn", torn) > 0


def covering_note(uri: str, epoch: int) -> str:
    committed = latest_verified_commit(uri)
    assert committed is not None
    old = committed.note.cut.positions["flights"].epoch
    return committed.note.to_text().replace(f'"epoch":{old}', f'"epoch":{epoch}')


def odd_reads(home: Path, write: Callable[[Settings, int], None], seconds: float = 4.0) -> int:
    """How many reads beside a writer saw too few rows, two epochs at once, or an older one than before."""
    settings, stop, wrong, newest = Settings(home=home), threading.Event(), 0, 0
    start_speed(settings, 1)

    def work() -> None:
        epoch = 1
        while not stop.is_set():
            epoch += 1
            write(settings, epoch)

    thread = threading.Thread(target=work)
    thread.start()
    end, reads = time.monotonic() + seconds, 0
    try:
        while time.monotonic() < end:
            rows = read(VIEW, settings=settings).to_arrow()
            epochs = pc.unique(rows["written_by"].drop_null()).to_pylist()
            wrong += rows.num_rows != KEYS * len(SERVED_DAYS) or len(epochs) != 1 or epochs[0] < newest
            newest, reads = max([newest, *epochs]), reads + 1
    finally:
        stop.set()
        thread.join()
    assert reads > 20
    assert newest > 3
    return wrong


# 5. No write is ever silently skipped; the idempotency key contains the view version and the checkpoint's own id.


def test_5_a_key_without_the_checkpoint_s_id_would_skip_a_write(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    ref = VersionRef(settings, DELAYS.name, 1)
    delays = ViewHandle(settings, DELAYS, FLIGHTS)

    def new_checkpoint() -> bool:
        """Whether the table covers what is landed once the stream has begun anew."""
        shutil.rmtree(ref.speed_checkpoint)
        catch_up(spark, delays)
        committed = latest_verified_commit(ref.speed_table)
        return committed is not None and committed.note.cut == landing.cut

    def by_number_alone(table: SpeedTable, _: str, batch: int, __: Cut) -> BatchAction:
        return BatchAction.DONE if batch <= int(table.newest().note.batch.partition(":")[2]) else BatchAction.NEXT

    catch_up(spark, delays)
    landing.land([departed("07:10")])
    with without(SpeedTable, "action_for", by_number_alone):
        assert not new_checkpoint()
    assert new_checkpoint()


# 6. Definitions are pure; changing one without a new version is refused.

DEFINITION = """
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.views import view


@view(name="counted", version=1, events=["flight.departed"], key=["origin"])
def counted(departed: DataFrame) -> DataFrame:
    return departed.groupBy("origin").agg(F.count(F.lit(1)).alias("flights"){more})
"""


def test_6_an_impure_or_a_changed_definition_is_refused(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    def registered(more: str) -> None:
        folder = tmp_path / secrets.token_hex(4)  # a process knows a file as it read it first
        folder.mkdir()
        (folder / "counted.py").write_text(DEFINITION.replace("{more}", more))
        load_views(folder, DECLARED).register(spark, settings)

    with pytest.raises(BadDefinition, match="current_timestamp"):
        registered(', F.max(F.current_timestamp()).alias("now")')
    registered("")
    registered("  # only a comment more\n    ")
    with raises("DEFINITION_CHANGED"):
        registered(', F.max("dep_delay").alias("worst")')


# 7. Nothing in a bad event, a bad name or a bad parameter is executed, and nothing good next to it is lost.


def test_7_a_name_can_t_lead_out_of_the_lake(
    spark: SparkSession, parcels: tuple[Settings, Topic], settings: Settings
) -> None:
    hostile = "../../outside"
    with raises("NAME_UNSAFE", BadInput):
        VersionRef(settings, hostile, 1)
    from anabranch.lake import layout

    with without(layout, "safe_name", lambda name, _: name):
        assert "outside" in str(
            Path(VersionRef(settings, hostile, 1).speed_table).resolve().relative_to(settings.home.parent)
        )

    broker, topic = parcels
    bad = parcel(9, subject="$(touch /tmp/anabranch-was-here)'; drop table x; --", data={"n": "${jndi:ldap://x}"})
    send(broker, topic, [parcel(1), bad, b"\xff\x00", parcel(2)])
    assert stream.start(spark, broker, topic, once=True).awaitTermination(240)
    rows = DeltaTable(landing_table(broker, topic.name)).to_pyarrow_table().to_pylist()
    assert sorted(r["event_id"] for r in rows if r["decision"] == "valid") == ["1", "2"]
    assert len([r for r in rows if r["decision"] == "quarantined"]) == 2


# 8. Whatever is killed, wherever, starts again with no manual step.


def test_8_a_start_that_was_killed_early_starts_again(
    spark: SparkSession, settings: Settings, landing: Landing, parcels: tuple[Settings, Topic]
) -> None:
    def killed_before_its_first_plan(checkpoint: Path) -> None:
        shutil.rmtree(checkpoint, ignore_errors=True)
        (checkpoint / "offsets").mkdir(parents=True)
        (checkpoint / "offsets" / ".0.3f9d.tmp").write_text("v1")

    killed_before_its_first_plan(VersionRef(settings, DELAYS.name, 1).speed_checkpoint)
    with without(view_stream, "clear_unstarted", lambda _: None), raises("STREAM_FAILED", BrokenState):
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert certify(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS)[0].equal

    broker, topic = parcels
    send(broker, topic, [parcel(1)])
    killed_before_its_first_plan(landing_checkpoint(broker, topic.name))
    with without(checkpoint, "clear_unstarted", lambda _: None), pytest.raises(StreamingQueryException):
        stream.start(spark, broker, topic, once=True).awaitTermination(240)
    assert stream.start(spark, broker, topic, once=True).awaitTermination(240)
    assert verify(broker, topic).sound
