"""A stream commits directly after the commit that it decided by, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.compute._table_columns import check_columns
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.lake import open_table
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views import View
from anabranch.views.model.definition import EMPTIED, PARTITION_DATE
from support.small_platform import DAYS, SPEED, V1, Clinic, departed, rows_on

pytestmark = pytest.mark.unit
BY_PARTITIONS = replace(V1, refresh="partitions")
VIEWS = pytest.mark.parametrize("view", [V1, BY_PARTITIONS], ids=["state", "partitions"])
WHOLE = pytest.mark.parametrize("whole", [True, False], ids=["refresh", "replace"])


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    made = Clinic(Settings(home=tmp_path))
    made.land([departed(n, DAYS[n % 5]) for n in range(5)])
    made.speed()
    return made


def opened(clinic: Clinic, view: View) -> SpeedTable:
    """The table as a process has it that has decided to commit the next batch."""
    table = SpeedTable(clinic.handle().speed_table, view, SPEED)
    owner, batch = next_batch(table)
    assert table.action_for(owner, batch, clinic.cut) is BatchAction.NEXT
    return table


def next_batch(table: SpeedTable) -> tuple[str, int]:
    owner, _, number = table.newest().note.batch.partition(":")
    return owner, int(number) + 1


def staged(clinic: Clinic, origin: str) -> list[StagedFile]:
    rows = rows_on(DAYS[:1], clinic.epoch, origin=origin)
    return list(stage_arrow(rows, clinic.handle().speed_table, origin.lower(), PARTITION_DATE))


def write(clinic: Clinic, table: SpeedTable, origin: str, batch: str, *, whole: bool) -> None:
    files, note = staged(clinic, origin), table.note(batch, clinic.cut)
    if whole:
        table.refresh(files, note)
    else:
        table.replace(files, DAYS[:1], note)


def origins(clinic: Clinic) -> set[str]:
    table = open_table(clinic.handle().speed_table)
    assert table is not None
    return {row["origin"] for row in table.to_pyarrow_table().to_pylist() if row[PARTITION_DATE] == DAYS[0]}


@VIEWS
@WHOLE
def test_who_slept_while_a_successor_committed_commits_nothing(clinic: Clinic, view: View, whole: bool) -> None:
    sleeper, successor = opened(clinic, view), opened(clinic, view)
    owner, batch = next_batch(successor)
    write(clinic, successor, "NEW", f"{owner}:{batch}", whole=whole)
    with pytest.raises(Conflict) as refused:
        write(clinic, sleeper, "OLD", f"{owner}:{batch}", whole=whole)
    assert refused.value.code == "TABLE_MOVED"
    assert origins(clinic) == {"NEW"}


def test_partitions_that_lost_their_rows_are_named_until_they_have_some_again(clinic: Clinic) -> None:
    table = opened(clinic, BY_PARTITIONS)
    table.replace([], DAYS[:2], table.note("c:1", clinic.cut))
    assert set(table.newest().note.extra[EMPTIED]) == {f"{day}" for day in DAYS[:2]}
    table.replace(staged(clinic, "JFK"), DAYS[:1], table.note("c:2", clinic.cut))
    assert set(table.newest().note.extra[EMPTIED]) == {f"{DAYS[1]}"}


FLIGHTS = SPEED.get_field_index("flights")


@pytest.mark.parametrize(
    ("schema", "changed"),
    [
        (SPEED.append(pa.field("gate", pa.string())), "gate (added)"),
        (SPEED.remove(FLIGHTS), "flights (gone)"),
        (SPEED.set(FLIGHTS, pa.field("flights", pa.float64())), "flights (another type)"),
    ],
)
def test_rows_with_other_columns_are_refused(clinic: Clinic, schema: pa.Schema, changed: str) -> None:
    """A view that passes all fields of its events on, after their contract has grown."""
    with pytest.raises(Conflict) as refused:
        SpeedTable(clinic.handle().speed_table, V1, schema)
    assert refused.value.code == "DEFINITION_CHANGED"
    assert changed in str(refused.value)
    assert "version=2, or select the columns by name" in refused.value.next_step
    SpeedTable(clinic.handle().speed_table, V1, pa.schema(reversed(SPEED)))


def test_columns_are_the_same_whatever_is_nullable_in_them(tmp_path: Path) -> None:
    nested = pa.struct([pa.field("at", pa.timestamp("us", "UTC"), False), pa.field("seats", pa.list_(pa.int32()))])
    strict = pa.schema([pa.field("k", pa.string(), False), ("plane", nested), ("m", pa.map_(pa.string(), nested))])
    made = SpeedTable(str(tmp_path / "t"), replace(V1, partition_by=None), strict)
    check_columns(V1, pa.schema(delta_table(made.uri).schema().to_arrow()), delta_table(made.uri))
    deeper = pa.struct([*nested, pa.field("model", pa.string())])
    with pytest.raises(Conflict, match=r"m \(another type\), plane \(another type\)"):
        check_columns(
            V1, pa.schema([strict.field("k"), ("plane", deeper), ("m", pa.map_(pa.string(), deeper))]),
            delta_table(made.uri),
        )  # fmt: skip
