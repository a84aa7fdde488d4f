"""The tutorial's code is run as it stands in the page, and what the page shows is what one gets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.apps.cli.main import app
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.errors import AnabranchError, BadDefinition, Conflict
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.views import Registry, View, load_views
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import DECLARED, FLIGHTS, Event, Landing
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = (project_root() / "docs" / "tutorial-first-view.md").read_text()
SHOWN_AS = "spark_jobs/views/carrier_day.py"
TRIED_AS = "drafts/carrier_day.sql"
START = datetime(2013, 1, 1, 20, tzinfo=UTC)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def changed(code: str, difference: str) -> str:
    """The code with the one line changed that the page shows as changed."""
    old, new = (line[1:] for line in difference.splitlines())
    assert code.count(old) == 1
    return code.replace(old, new)


@dataclass(frozen=True)
class Written:
    """A definition as somebody wrote it into a folder of views."""

    registry: Registry
    path: Path

    @property
    def view(self) -> View:
        return self.registry.get("carrier_day")

    def shown(self, error: AnabranchError) -> str:
        return str(error).replace(str(self.path), SHOWN_AS)


def written(folder: Path, code: str) -> Written:
    folder.mkdir()
    path = folder / Path(SHOWN_AS).name
    path.write_text(code)
    return Written(load_views(folder, DECLARED), path)


def arrivals() -> list[list[Event]]:
    """Three epochs over two days. None is late, so both paths see the same events; one is a duplicate."""
    epochs = []
    for epoch in range(3):
        times = [START + timedelta(hours=3 * epoch, minutes=17 * n) for n in range(8)]
        epochs.append(
            [
                Event(
                    "flight.arrived", at, f"{epoch}-{n}", {"carrier": ("AA", "UA")[n % 2], "arr_delay": 7 * n - epoch}
                )
                for n, at in enumerate(times)
            ]
        )
    epochs[2].append(epochs[2][0])
    return epochs


def expected(epochs: list[list[Event]]) -> list[dict[str, Any]]:
    """The view in plain Python."""
    delays: dict[tuple[date, str], dict[str, int]] = {}
    for event in (e for epoch in epochs for e in epoch):
        delays.setdefault((event.time.date(), event.data["carrier"]), {})[event.id] = event.data["arr_delay"]
    columns = ("day", "carrier", "arrivals", "delay_minutes", "worst_delay")
    return [
        dict(zip(columns, (*key, len(found), sum(found.values()), max(found.values())), strict=True))
        for key, found in sorted(delays.items())
    ]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    plain = table.drop_columns([c for c in (PARTITION_DATE, CHANGED) if c in table.column_names])
    return sorted(plain.to_pylist(), key=lambda row: (row["day"], row["carrier"]))


def test_it_has_fifteen_lines() -> None:
    (code,) = blocks("python")
    assert len(code.splitlines()) == 15


def test_the_view_runs_as_batch_and_as_stream_with_equal_rows(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    ref = VersionRef(settings, "carrier_day", 1)
    (code,) = blocks("python")
    tried = written(tmp_path / "views", code)
    tried.registry.register(spark, settings)
    landing, epochs = Landing(settings), arrivals()

    landing.land(*epochs[:2])
    catch_up(spark, ViewHandle(settings, tried.view, FLIGHTS))
    landing.land(epochs[2])
    catch_up(spark, ViewHandle(settings, tried.view, FLIGHTS))
    table = open_table(ref.speed_table)
    assert table is not None
    speed = rows(table.to_pyarrow_table())

    build = rebuild(spark, ViewHandle(settings, tried.view, FLIGHTS), [date(2013, 1, 1), date(2013, 1, 2)], "tutorial")
    folder = Path(ref.batch_table)
    batch = rows(pa.concat_tables([pq.read_table(folder / file.path, partitioning=None) for file in build.files]))

    assert not any(row["late"] for row in landing.rows)
    assert speed == batch == expected(epochs)
    assert {row["day"] for row in batch} == {date(2013, 1, 1), date(2013, 1, 2)}


def test_in_sql_it_is_tried_as_the_page_shows(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks("sql")
    path, epochs = tmp_path / "carrier_day.sql", arrivals()
    path.write_text(code)
    Landing(settings).land(*epochs)
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))
    assert spark is not None, "the command takes the session of this process"

    done = CliRunner().invoke(app, ["try", str(path), "--days", "2013-01-01..2013-01-02", "--rows", "3"])
    assert done.exit_code == 0, done.output
    shown, page = (masked(text) for text in (done.stdout.replace(str(path), TRIED_AS), blocks("text")[2]))
    assert [shown[0], *shown[-3:]] == [page[0], *page[-3:]]
    assert [line[:9] for line in shown[-5:]] == [line[:9] for line in page[-5:]]
    assert "worst_delay" in done.stdout

    names = dict[str, Any]()
    (notebook,) = blocks("py")
    exec(notebook.replace(TRIED_AS, str(path)), names)  # noqa: S102 - the page's own code
    assert names["arrived"].count() == sum(event.time.day == 1 for epoch in epochs for event in epoch)
    assert names["found"].equal
    assert rows(names["found"].rows) == expected(epochs)


def masked(text: str) -> list[str]:
    """The lines with zeros for numbers, which are those of other events."""
    return [re.sub(r"\d[\d,.]*\d|\d", "0", line) for line in text.splitlines()]


def test_what_the_page_shows_as_refused_is_refused_in_these_words(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    tried = written(tmp_path / "views", changed(blocks("python")[0], blocks("diff")[0]))
    with pytest.raises(BadDefinition) as error:
        tried.registry.register(spark, settings)
    assert tried.shown(error.value) + "\n" == blocks("text")[1]


def test_a_changed_definition_needs_another_version(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    (code,) = blocks("python")
    written(tmp_path / "first", code).registry.register(spark, settings)
    again = written(tmp_path / "again", f"# a remark\n{code}")
    again.registry.register(spark, settings)

    other = changed(code, blocks("diff")[1])
    tried = written(tmp_path / "other", other)
    with pytest.raises(Conflict) as error:
        tried.registry.register(spark, settings)
    assert error.value.code == "DEFINITION_CHANGED"
    assert tried.shown(error.value).splitlines()[0] + "\n" == blocks("text")[3]
    written(tmp_path / "second", other.replace("version=1", "version=2")).registry.register(spark, settings)
