"""Every row of a file becomes the same bytes each time, typed by the contract; what can't be read is refused whole."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.contracts import CloudEvents, Contract, Header, PlainJson, Record, Topic, TypeField
from anabranch.core.errors import BadInput
from anabranch.ingest.files import _avro_blocks, check_loadable, find_files
from anabranch.ingest.files._prepare import prepare
from anabranch.ingest.files._problems import MOST, OTHER, in_words, merge

pytestmark = pytest.mark.unit
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "properties": {
            "id": {"type": "string", "sent_as": "paymentId"},
            "at": {"type": "string", "format": "date-time"},
            "cents": {"type": "integer"},
            "rate": {"type": "number"},
            "ok": {"type": "boolean"},
            "fee": {"type": "number", "format": "decimal", "precision": 12, "scale": 2},
            "amount": {"type": "string", "format": "decimal", "precision": 12, "scale": 2},
            "shop": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
)
TOPIC = Topic("payments", (PAID,), records=PlainJson(id="id", time="at"))


def rows(path: Path, topic: Topic = TOPIC, size: int = 2) -> list[bytes]:
    (address,) = find_files([str(path)])
    prepared = prepare(address, path, topic, path.parent / "parts", size)
    assert [part.first for part in prepared.parts] == list(range(0, prepared.rows, size))
    tables = [pq.read_table(part.path) for part in prepared.parts]
    assert [n for table in tables for n in table["offset"].to_pylist()] == list(range(prepared.rows))
    return [value for table in tables for value in table["value"].to_pylist()]


def test_a_line_is_its_bytes(tmp_path: Path) -> None:
    text = b'\xef\xbb\xbf{"b": 1.50,"a":1}\r\n\n  \nnot json\n\xff\n{"last":true}'
    expected = [b'{"b": 1.50,"a":1}', b"not json", b"\xff", b'{"last":true}']
    (tmp_path / "a.jsonl").write_bytes(text)
    assert rows(tmp_path / "a.jsonl") == expected
    packed = tmp_path / "packed" / "a.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(text, mtime=0))
    assert rows(packed) == expected


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("cents", "12", b"12"),
        ("cents", "-0", b"-0"),
        ("cents", "007", b'"007"'),
        ("cents", "+5", b'"+5"'),
        ("cents", " 5", b'" 5"'),
        ("cents", "", b"null"),
        ("cents", '""', b"null"),
        ("rate", "1.50", b"1.50"),
        ("rate", "1e5", b"1e5"),
        ("rate", "NaN", b'"NaN"'),
        ("fee", "1234567890.10", b"1234567890.10"),
        ("amount", "1.50", b'"1.50"'),
        ("paymentId", "007", b'"007"'),
        ("paymentId", "", b"null"),
        ("paymentId", '""', b'""'),
        ("paymentId", '"a ""b"", c"', rb'"a \"b\", c"'),
        ("ok", "TRUE", b"true"),
        ("ok", "yes", b'"yes"'),
        ("at", "2024-01-01", b'"2024-01-01"'),
        ("shop", '"{""city"":""Rome""}"', b'{"city":"Rome"}'),
        ("shop", "Rome", b'"Rome"'),
        ("undeclared", "5", b'"5"'),
    ],
)
def test_a_cell_is_what_the_contract_says(tmp_path: Path, column: str, cell: str, value: bytes) -> None:
    other = "at" if column == "cents" else "cents"
    (tmp_path / "a.csv").write_text(f"{column},{other}\n{cell},\n")
    fields = {column: value, other: b"null"}
    text = b",".join(b'"%s":%s' % (name.encode(), fields[name]) for name in sorted(fields))
    assert rows(tmp_path / "a.csv") == [b"{" + text + b"}"]


TYPED: list[dict[str, Any]] = [
    {"paymentId": 'a"é', "at": "2024-01-02T03:04:05.000006Z", "cents": 1, "rate": 0.1, "ok": True, "fee": 1.50,
     "amount": "1.50", "shop": {"city": "Rome", "since": "2024-01-02"}, "tags": [["x"], None, []]},
    {"paymentId": None, "at": None, "cents": None, "rate": "nan", "ok": None, "fee": None, "amount": None, "shop": None,
     "tags": None},
]  # fmt: skip


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Rome"])
def test_a_typed_row_is_canonical_json(tmp_path: Path, zone: str | None) -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 6, UTC if zone else None)
    table = pa.table(
        {
            "tags": [[["x"], None, []], None],
            "paymentId": ['a"é', None],
            "at": pa.array([moment, None], pa.timestamp("ns", zone)),
            "cents": pa.array([1, None], pa.int32()),
            "rate": [0.1, float("nan")],
            "ok": [True, None],
            "fee": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
            "amount": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
            "shop": [{"since": date(2024, 1, 2), "city": "Rome"}, None],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    found = rows(tmp_path / "a.parquet")
    assert [json.loads(row) for row in found] == TYPED
    assert b'"fee":1.50,' in found[0]
    assert found[0].startswith(b'{"amount":'), "in the order of the names"
    text = json.dumps(json.loads(found[0]), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert found[0] == text.encode().replace(b":1.5,", b":1.50,")


def test_avro_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"paymentId": [f"p{n}" for n in range(9)], "cents": list(range(9))})
    whole = tmp_path / "one" / "a.avro"
    whole.parent.mkdir()
    frame.write_avro(whole, compression="deflate")
    expected = [b'{"cents":%d,"paymentId":"p%d"}' % (n, n) for n in range(9)]
    assert rows(whole) == expected
    content = whole.read_bytes()
    with whole.open("rb") as file:
        header = _avro_blocks._header(file)
    twice = tmp_path / "two" / "a.avro"
    twice.parent.mkdir()
    twice.write_bytes(content + content[len(header) :])
    monkeypatch.setattr(_avro_blocks, "_AT_ONCE", 1)
    assert rows(twice) == expected * 2


MAPPED: dict[str, Any] = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "paymentId", "type": "string"},
        {"name": "fee", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "counts", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "shop", "type": {"type": "record", "name": "Shop", "fields": [
            {"name": "since", "type": {"type": "int", "logicalType": "date"}},
            {"name": "rates", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        ]}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": ["null", "bytes"]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_with_maps(tmp_path: Path, codec: str) -> None:
    key = UUID(int=7)
    row = {
        "paymentId": "p", "fee": Decimal("9999999999.99"), "amount": Decimal("-1.50"), "at": None,
        "counts": {"ö": 1, "a": None}, "shop": {"since": date(2024, 1, 2), "rates": [{"x": 0.1}, {}]}, "key": key,
        "raw": b"\x00",
    }  # fmt: skip
    empty = {**row, "at": datetime(2024, 1, 2, 3, 4, 5, 6000, UTC), "counts": {}, "raw": None}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(MAPPED), [row] + [empty] * 3_000, codec=codec, sync_interval=500)
    found = rows(tmp_path / "a.avro")
    assert found[0].decode() == (
        '{"amount":"-1.50","at":null,"counts":{"a":null,"ö":1},"fee":9999999999.99,'
        f'"key":"{key}","paymentId":"p","raw":"AA==","shop":{{"rates":[{{"x":0.1}},{{}}],"since":"2024-01-02"}}}}'
    )
    assert len(found) == 3_001
    assert json.loads(found[3_000])["at"] == "2024-01-02T03:04:05.006000Z"
    assert json.loads(found[3_000])["counts"] == {}

    cut = tmp_path / "cut" / "a.avro"
    cut.parent.mkdir()
    cut.write_bytes((tmp_path / "a.avro").read_bytes()[:-30])
    with pytest.raises(BadInput, match="nothing of it was landed"):
        rows(cut)


def test_avro_with_maps_and_what_no_column_holds(tmp_path: Path) -> None:
    several = {"name": "several", "type": ["int", "string"]}
    schema = {**MAPPED, "fields": [MAPPED["fields"][0], MAPPED["fields"][4], several]}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"paymentId": "p", "counts": {}, "several": 1}])
    with pytest.raises(BadInput, match="column several may have 2 types"):
        rows(tmp_path / "a.avro")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.csv",
            b"paymentId,cents\na,1\nb\nc,1,2\nd,1,2\n",
            "too few cells (the first: 3); 2 lines have too many cells",
        ),
        ("a.csv", b"", "not even a header"),
        ("a.csv", b"paymentId,paymentId\n1,2\n", "several columns are called 'paymentId'"),
        ("a.csv", b"foo,bar\n1,2\n", "none of its columns (foo, bar) is a field of the contract"),
        ("a.csv", b'paymentId,cents\na,1\n"b,2\n', "a quote that doesn't end"),
        ("a.csv", b"paymentId,cents\n\xff,2\n", "no UTF-8"),
        ("a.json", b' [{"cents": 1}]', "begins with an array"),
        ("a.jsonl.gz", gzip.compress(b"{}\n" * 99, mtime=0)[:-9], "can't be read to its end"),
        ("a.parquet", b"PAR1 cut off", "Parquet"),
        ("a.avro", b"Obj\x01\x02", "cut off"),
        ("a.avro", b"hello", "no Avro container"),
    ],
)
def test_an_unreadable_file_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput) as refused:
        rows(tmp_path / name)
    assert refused.value.code == "FILE_UNREADABLE"
    assert words in str(refused.value)
    assert "nothing of it was landed" in str(refused.value)


def test_columns_of_an_envelope(tmp_path: Path) -> None:
    topic = Topic("payments", (PAID,), records=CloudEvents())
    (tmp_path / "a.csv").write_text('id,source,type,time,data\n1,s,payment.made,2024,"{""cents"":1}"\n')
    assert rows(tmp_path / "a.csv", topic) == [
        b'{"data":{"cents":1},"id":"1","source":"s","specversion":"1.0","time":"2024","type":"payment.made"}'
    ]
    other = tmp_path / "other" / "b.csv"
    other.parent.mkdir()
    other.write_text("id,source,cents\n1,s,5\n")
    with pytest.raises(BadInput, match="it lacks the columns type, time, data"):
        rows(other, topic)


@pytest.mark.parametrize(
    ("records", "part"),
    [
        (PlainJson(id=Record.KEY, time="at"), "id"),
        (PlainJson(id="id", time=Record.APPEND_TIME), "time"),
        (PlainJson(id="id", time="at", subject=Record.KEY), "subject"),
        (PlainJson(id=("id", Header("run")), time="at"), "id"),
        (PlainJson(id="id", time="at", type=TypeField(Header("kind"))), "type"),
    ],
)
def test_a_mapping_needs_what_a_row_has(records: PlainJson, part: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_loadable(Topic("payments", (PAID,), records=records))
    assert (refused.value.code, refused.value.fields["part"]) == ("LOAD_MAPPING", part)
    check_loadable(Topic("payments", (PAID,), records=PlainJson(id=Record.OFFSET, time="at")))


def test_files_of_a_folder(tmp_path: Path) -> None:
    names = ("b.csv", "a.jsonl", "notes.txt", ".c.csv", "_delta_log/x.json", "deep/z.NDJSON", "deep/y.parquet")
    for name in (*names, "deep/x.parquet.gz", "deep/x.avro.gz", "deep/w.csv.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [Path(address.name).name for address in find_files([str(tmp_path), str(tmp_path / "b.csv")])]
    assert found == ["a.jsonl", "b.csv", "w.csv.gz", "y.parquet", "z.NDJSON"]
    for wrong in ("notes.txt", "nothing.csv", "deep/x.parquet.gz", "deep/x.avro.gz"):
        with pytest.raises(BadInput, match=r"ending|no file"):
            find_files([str(tmp_path / wrong)])


def test_problems_once_per_kind() -> None:
    assert in_words("contract: data.cents is no integer", "csv") == "column cents is no integer"
    assert in_words("contract: data.shop.city is missing", "json lines") == "field shop.city is missing"
    assert in_words("not_json: the value is no JSON object", "json lines") == "a line that is no JSON object"
    many = merge(Counter({f"kind {n}": n for n in range(1, 50)}), Counter({"kind 49": 1}))
    assert (len(many), many.total(), many["kind 49"]) == (MOST, sum(range(50)) + 1, 50)
    assert many[OTHER] == sum(range(1, 31))


@pytest.mark.parametrize("name", ["", " ", "nothing.csv", "\x00", "x" * 5_000])
def test_a_name_that_is_no_file_is_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty one, too: to Python it is the current folder."""
    (tmp_path / "here.csv").write_text("id\n1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as error:
        find_files([name])
    assert error.value.code == "LOAD_FILES"
