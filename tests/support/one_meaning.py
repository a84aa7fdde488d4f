"""A small table, and predicates over it: those that mean the same to every engine, with the numbers of their rows, and
those that engines would read in different ways."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa

_TEXTS = ["1", "2.5", "abc", " 3 ", "2013-01-01", "1e2", None, "x_y"]
_REALS = [0.5, 1.5, 2.5, -0.5, -1.5, 100.0, None, -2.5]
_EXACT = ["0.50", "1.50", "2.50", "-0.50", "-1.50", "3.49", None, "-0.01"]
_DAYS = [date(2013, 1, 1), date(1969, 12, 31), None, date(2013, 1, 2)] * 2
_MOMENTS = [datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
TABLE: Final = pa.table(
    {
        "n": pa.array(range(8), pa.int64()),
        "text": _TEXTS,
        "whole": pa.array([1, 2, -3, 0, 2**31, 5, None, 7], pa.int64()),
        "tiny": pa.array([1, 2, -3, 0, 127, 5, None, -128], pa.int8()),
        "real": pa.array(_REALS, pa.float64()),
        "small": pa.array([*_REALS[:5], 0.1, None, -2.5], pa.float32()),
        "exact": pa.array([None if each is None else Decimal(each) for each in _EXACT], pa.decimal128(10, 2)),
        "fine": pa.array([Decimal("0.0000001"), Decimal("12.5"), *[None] * 6], pa.decimal128(20, 10)),
        "flag": pa.array([True, False, None, True] * 2),
        "day_of": pa.array(_DAYS, pa.date32()),
        "moment": pa.array([*_MOMENTS, None, _MOMENTS[0]] * 2, pa.timestamp("us", "UTC")),
        "local": pa.array(
            [each and each.replace(tzinfo=None) for each in [*_MOMENTS, None, None] * 2], pa.timestamp("us")
        ),
        "list": pa.array([[1], None] * 4, pa.list_(pa.int64())),
    }
)
SPARK_SCHEMA: Final = (
    "n bigint, text string, whole bigint, tiny tinyint, real double, small float, exact decimal(10,2), "
    "fine decimal(20,10), flag boolean, day_of date, moment timestamp, local timestamp_ntz, list array<bigint>"
)

SAME: Final[dict[str, list[int]]] = {
    "cast(real as int) = 2": [1, 2],
    "cast(real as int) = -2": [4, 7],
    "cast(real as bigint) = 0": [0, 3],
    "cast(small as integer) = 2": [1, 2],
    "cast(exact as int) = 2": [1],
    "cast(exact as int) in (3, -2, -1)": [2, 3, 4, 5],
    "cast(real * 2 as int) = 3": [1],
    "cast(3.5e0 as int) = 4 and n = 0": [0],
    "cast(2.5 as int) = 3 and n = 0": [0],
    "cast(-2.5 as int) = -3 and n = 0": [0],
    "cast(' 12 ' as int) = 12 and n = 0": [0],
    "cast(whole as varchar) = '2147483648'": [4],
    "cast(exact as varchar) = '-0.50'": [3],
    "cast(fine as varchar) in ('0.0000001000', '12.5000000000')": [0, 1],
    "cast(day_of as varchar) = '1969-12-31'": [1, 5],
    "cast(flag as varchar) = 'true' and cast(flag as int) = 1": [0, 3, 4, 7],
    "cast(exact as double) > 1.4": [1, 2, 5],
    "cast(small as double) = 0.1": [],
    "cast(moment as date) = date '1969-12-31'": [1, 5],
    "cast(local as date) = '1969-12-31'": [1, 5],
    "cast(day_of as timestamp) < moment": [0, 1, 4, 5],
    "cast(null as date) is null and n = 0": [0],
    "whole = '2' or whole > ' 6 '": [1, 4, 7],
    "real = '1.5' or real > '1e1'": [1, 5],
    "flag = 'TRUE' or flag = 'no'": [0, 1, 3, 4, 5, 7],
    "day_of = '2013-1-1' or day_of = '2013-01-02 05:00'": [0, 3, 4, 7],
    "day_of > 'epoch'": [0, 3, 4, 7],
    "moment = '2013-1-1 5:0:0.0000019'": [0, 3, 4, 7],
    "moment = '2013-01-01T05:00:00.000001Z'": [0, 3, 4, 7],
    "moment = '2013-01-01 10:30:00.000001+05:30'": [0, 3, 4, 7],
    "moment = '2013-01-01 00:00:00.000001 America/New_York'": [0, 3, 4, 7],
    "moment < '10000-01-01' and moment > date '2000-01-01' and local > timestamp '2000-01-01'": [0, 4],
    "day_of + 1 = '2013-01-03' or day_of - 1 = date '1969-12-30'": [1, 3, 5, 7],
    "whole < 9223372036854775807 and tiny < 300": [0, 1, 2, 3, 4, 5, 7],
    "small in (0.1, 1.5) or small = 2.5e0": [1, 2, 5],
    "coalesce(whole, 2.5) = 2.5": [6],
    "coalesce(moment, '2000-01-01') = '2000-01-01'": [2, 6],
    "coalesce(flag, false) and coalesce(text, '') <> ''": [0, 3, 4, 7],
    "exact * 0.1 = 0.15 or exact + whole = 3.5": [1],
    "abs(real) = 2.5 and -whole <> 0": [2, 7],
    "length(text) between 1 and 2 and lower(text) like '_'": [0],
    "year(moment) = 1969 or hour(day_of) = 1": [1, 5],
    "(text = '1') = (whole = 1) and n < 2": [0, 1],
    "null is null and (list is null or list is not null) and not (n > 0)": [0],
    "whole is null": [6],
}
"""Predicates, and the numbers of the rows that they find in the table."""

REFUSED: Final = [
    "cast(text as int) = 1",
    "cast(text as double) > 1",
    "cast(text as date) = date '2013-01-01'",
    "cast(text as timestamp) > moment",
    "cast('2.5' as int) = 3",
    "cast('abc' as int) = 3",
    "cast('1e2' as int) = 100",
    "cast('0x10' as int) = 16",
    "cast('99999999999999999999' as int) > 1",
    "cast('1d' as double) = 1",
    "cast(real as varchar) = '1e+300'",
    "cast(small as varchar) = '0.1'",
    "cast(moment as varchar) like '2013%'",
    "cast(local as varchar) like '2013%'",
    "cast(moment as int) > 0",
    "cast(moment as double) > 0",
    "cast(day_of as int) > 0",
    "cast(whole as date) = day_of",
    "cast('2013' as date) = day_of",
    "cast(list as varchar) = '[1]'",
    "date 'today' > day_of",
    "date 'infinity' > day_of",
    "timestamp 'now' > moment",
    "day_of = '2013'",
    "day_of = '2013/01/01'",
    "day_of = '2013-01-01 garbage'",
    "day_of > '13-01-01'",
    "moment < '2013-01-01 24:00:00'",
    "moment > '2013-01-01 05'",
    "moment < '12:00:00'",
    "moment < '2013-01-01 05:00:00 +02'",
    "moment > '1000-01-01 (BC)'",
    "flag = ' true '",
    "flag = 1",
    "flag > 0",
    "true = 1",
    "whole = true",
    "whole = '2.5'",
    "exact = '2.501'",
    "small = '0.1'",
    "text = 1",
    "text in ('1', 2)",
    "text between 1 and 3",
    "text = whole",
    "text = day_of",
    "'abc' = 1",
    "list = list",
    "whole < 99999999999999999999",
    "whole < 9223372036854775808.5",
    "exact = 1.50000000000000000000000000000001",
    "real < 1e400",
    "small = whole",
    "small > exact",
    "small * 2 = 0.2",
    "-small = 0.1",
    "abs(small) = 0.1",
    "coalesce(small, 0.1) = 0.1",
    "coalesce(flag, 1) = 1",
    "coalesce(whole, text) = '1'",
    "coalesce(whole, 'x') = 1",
    "fine * fine * fine > 1",
    "day_of - day_of = 0",
    "moment - moment = 0",
    "day_of - tiny > date '2013-01-02'",
    "whole + '1' = 2",
    "text + 1 = 2",
    "length(whole) = 1",
    "lower(whole) = '2'",
    "abs(text) = 1",
    "year(text) = 2013",
    "year('2013-01-01') = 2013",
    "hour('05:00') = 5",
    "whole like '2%'",
    "day_of like '2013%'",
    "whole",
    "flag and whole",
    "not whole",
    "'true'",
    "1",
    "null",
]
"""Predicates whose rows would depend on the engine, or that only one of them takes."""
