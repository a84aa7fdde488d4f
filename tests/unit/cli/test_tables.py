"""Tables in a narrow terminal: whatever a command prints, nothing of it is cut off."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pytest
from anabranch.apps.cli._census_commands import census_table
from anabranch.apps.cli._tables import print_whole
from anabranch.certify.certificates import Certificate, Checksum
from anabranch.certify.rendering import certificates_table
from anabranch.ingest.landing.audit.quarantine import Quarantined, QuarantinedKind
from anabranch.ingest.landing.audit.report import kinds_table, proof_table, quarantine_table
from anabranch.ingest.landing.audit.verify import PartitionProof, Proof
from anabranch.ingest.landing.table.contract_usage import Producer, VersionUsage
from anabranch.lake.cut import Cut, Position
from rich.table import Table

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
CUT = Cut({"flights": Position(1_234, {0: 5}), "weather": Position(987, {0: 5})})
RUN = "manual-2026-11-21t08-36-01-681102-00-00-hofumhns-0a1b2c3d4e"


def proof(*, wrong: tuple[str, ...] = (), lag: int = 0) -> Proof:
    counts = {"valid": 450_123, "quarantined": 12_210, "duplicates": 45_518, "late": 1_828, "tombstones": 0, "holes": 0}
    each = [
        PartitionProof(n, 0, 507_851, 0, 507_851 + lag, 507_851 + lag, **counts, wrong=wrong if n == 0 else ())
        for n in range(4)
    ]
    return Proof("flights", 1_234, tuple(each))


def records() -> list[Quarantined]:
    reason = "dep_delay: 'a text of some length' is not of type integer; scheduled_departure: is missing"
    return [
        Quarantined("flights", n % 4, 1_234_567 + n, NOON, n, reason, "flight.departed", b"", b"") for n in range(3)
    ]


def certificates() -> list[Certificate]:
    sums = Checksum(12_345, 1, 1), Checksum(12_346, 2, 2)
    return [
        Certificate("delays", 1, date(2013, 1, n), RUN, CUT, 1, "f", "recomputed", sums[0], sums[n % 2], 1_234, NOON)
        for n in (1, 2)
    ]


def wide() -> Table:
    table = Table(title="many columns", caption="the end of it")
    for n in range(30):
        table.add_column(f"column_{n}")
    table.add_row(*(f"value_{n}" for n in range(29)), "[green]equal[/]")
    return table


TABLES = {
    "proof": proof_table(proof()),
    "proof with gaps": proof_table(proof(wrong=("offset 12 is missing", "offset 13 landed twice"), lag=1_234)),
    "kinds": kinds_table("flights", [QuarantinedKind(3, 0, records()[-1])]),
    "quarantine": quarantine_table("flights", records(), 50),
    "certificates": certificates_table("delays", 1, certificates()),
    "census": census_table(
        [
            VersionUsage(
                "flights",
                "flight.departed",
                1,
                True,
                False,
                123_456,
                1_234,
                NOON,
                NOON,
                1,
                (Producer("/airports/JFK", 9),),
            )
        ]
    ),
    "wide": wide(),
}


def printed(table: Table, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    print_whole(table)
    return capsys.readouterr().out


def letters(text: str) -> str:
    return re.sub(r"[^\w:,.'=@-]", "", text)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", TABLES)
def test_nothing_is_cut_off(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = TABLES[name]
    said = printed(table, width, monkeypatch, capsys)
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
    assert all(line.rstrip()[-1:] in "┃┩│┘┓" for line in said.splitlines() if line[:1] in "┏┃┡│└"), (
        "a border is cut off"
    )
    assert max(map(len, said.splitlines())) <= width
    cells = [str(cell) for column in table.columns for cell in (column.header, *column.cells)]
    words = [word for cell in cells for word in re.sub(r"\[/?[a-z]*\]", "", cell).split()]
    missing = [word for word in words if word not in said]
    for word in missing:  # a long one was folded over lines of its column: each of its letters is there
        assert len(word) > 12, word
        assert letters(word[:8]) in letters(said), word


def test_landing_verify_is_a_table_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = printed(TABLES["proof"], 80, monkeypatch, capsys)
    head = next(line for line in said.splitlines() if "quarantined" in line)
    assert head.split() == ["partition", "log", "landed", "valid", "quarantined", "duplicates", "late"]
    assert "no record" not in said, "a count that is 0 everywhere has no column"
    assert [line.split()[0] for line in said.splitlines()[-5:]] == ["0", "1", "2", "3", "all"]


def test_what_is_too_wide_is_a_block_of_lines_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(TABLES["wide"], 80, monkeypatch, capsys).splitlines()
    assert lines[0] == "many columns"
    assert [line.split() for line in lines[1:4]] == [[f"column_{n}", f"value_{n}"] for n in range(3)]
    assert lines[30].split() == ["column_29", "equal"]
    assert lines[-1] == "the end of it"
