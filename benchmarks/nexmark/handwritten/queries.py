"""The queries in Spark's SQL, over person, auction and bid: the fields of each with date_time, event_id, p and o."""

# ruff: noqa: S608 - put together from texts of this file

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.nexmark.handwritten.reports import DIFFERENT, LEVELS


@dataclass(frozen=True, slots=True)
class Query:
    """``day`` is what the table is partitioned by (none: it isn't), ``key`` what identifies a row in a merge.

    ``streams``: Spark runs it in update mode. What it doesn't is computed again for the days that new events touch,
    and for ``around`` days before and after them, as one does in foreachBatch.
    """

    sql: str
    key: tuple[str, ...]
    day: str | None = None
    streams: bool = True
    around: int = 0


def _each(sql: str) -> Query:
    return Query(sql, ("date_time", "bid"), "date_time")


_BID: Final = "date_time, event_id AS bid, auction, bidder, price"
_EUROS: Final = "CAST(0.908 * price AS decimal(23, 3))"
_CHANNEL: Final = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_OPEN: Final = "auction.id = bid.auction AND bid.date_time BETWEEN auction.date_time AND auction.expires"
_WON: Final = f"""
    SELECT auction.*, bid.auction, bid.bidder, bid.price, bid.date_time AS bid_date_time, bid.extra AS bid_extra,
        row_number() OVER (PARTITION BY id ORDER BY price DESC, bid.date_time, bid.p, bid.o) AS place
    FROM auction JOIN bid ON {_OPEN}"""

QUERIES: Final = {
    "q0": _each(f"SELECT {_BID}, extra FROM bid"),
    "q1": _each(f"SELECT date_time, event_id AS bid, auction, bidder, {_EUROS} AS price, extra FROM bid"),
    "q2": _each("SELECT date_time, event_id AS bid, auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Query(
        """SELECT auction.date_time, auction.id, name, city, state FROM auction JOIN person ON seller = person.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
        ("date_time", "id"),
        "date_time",
        streams=False,
        around=3,
    ),
    "q4": Query(
        f"""SELECT to_date(date_time) AS day, category, sum(final) AS total, count(*) AS auctions,
            sum(final) DIV count(*) AS average
        FROM (SELECT id, category, auction.date_time, max(price) AS final FROM auction JOIN bid ON {_OPEN}
            GROUP BY id, category, auction.date_time)
        GROUP BY day, category""",
        ("day", "category"),
        "day",
        streams=False,
        around=1,
    ),
    "q5": Query(
        """SELECT window.start AS window_start, window.end AS window_end, auction, num
        FROM (SELECT *, max(num) OVER (PARTITION BY window) AS most
            FROM (SELECT window(date_time, '1 hour', '12 minutes') AS window, auction, count(*) AS num
                FROM bid GROUP BY 1, 2))
        WHERE num = most""",
        ("window_start", "auction"),
        "window_start",
        streams=False,
        around=1,
    ),
    "q6": Query(
        f"""SELECT expires AS closed, auction, seller, price, count(*) OVER ten AS sold,
            sum(price) OVER ten DIV count(*) OVER ten AS average
        FROM ({_WON}) WHERE place = 1
        WINDOW ten AS (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)""",
        ("closed", "auction"),
        "closed",
        streams=False,
        around=3,
    ),
    "q7": Query(
        """SELECT window.start AS window_start, top.auction, top.bidder, top.price, top.extra, top.date_time
        FROM (SELECT window(date_time, '1 minute') AS window,
                min(struct(-price AS below, date_time, p, o, auction, bidder, price, extra)) AS top
            FROM bid GROUP BY 1)""",
        ("window_start",),
        "window_start",
    ),
    "q8": Query(
        """SELECT window.start AS window_start, id, name
        FROM (SELECT window(date_time, '12 hours') AS window, id, max(name) AS name, max(opened) AS opened
            FROM (SELECT date_time, id, name, 0 AS opened FROM person
                UNION ALL SELECT date_time, seller, NULL, 1 FROM auction) GROUP BY 1, 2)
        WHERE name IS NOT NULL AND opened = 1""",
        ("window_start", "id"),
        "window_start",
    ),
    "q9": Query(
        f"SELECT * EXCEPT (place, event_id, p, o) FROM ({_WON}) WHERE place = 1",
        ("date_time", "id"),
        "date_time",
        streams=False,
        around=1,
    ),
    "q10": _each(
        f"""SELECT {_BID}, extra, date_format(date_time, 'yyyy-MM-dd') AS dt, date_format(date_time, 'HH:mm') AS hm
        FROM bid"""
    ),
    "q11": Query(
        """SELECT bidder, count(*) AS bid_count, session_window.start AS start_time, session_window.end AS end_time
        FROM bid GROUP BY session_window(date_time, '1 hour'), bidder""",
        ("start_time", "bidder"),
        "start_time",
        streams=False,
        around=1,
    ),
    "q13": _each(
        f"""SELECT {_BID}, side.value FROM bid
        JOIN (SELECT id AS key, concat('side-', id * 7919 % 10000) AS value FROM range(10000)) side
        ON auction % 10000 = key"""
    ),
    "q14": _each(
        f"""SELECT date_time, event_id AS bid, auction, bidder, {_EUROS} AS price,
            CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime'
                WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
                ELSE 'otherTime' END AS bid_time_type,
            extra, CAST(length(extra) - length(replace(extra, 'c', '')) AS bigint) AS c_counts
        FROM bid WHERE {_EUROS} > 1000000 AND {_EUROS} < 50000000"""
    ),
    "q15": Query(
        f"SELECT to_date(date_time) AS day, {DIFFERENT} FROM bid GROUP BY day", ("day",), "day", streams=False
    ),
    "q16": Query(
        f"""SELECT to_date(date_time) AS day, channel, max(date_format(date_time, 'HH:mm')) AS minute, {DIFFERENT}
        FROM bid GROUP BY day, channel""",
        ("day", "channel"),
        "day",
        streams=False,
    ),
    "q17": Query(
        f"""SELECT to_date(window.start) AS day, * EXCEPT (window), sum_price DIV total_bids AS avg_price
        FROM (SELECT window(date_time, '1 day') AS window, auction, {LEVELS}, min(price) AS min_price,
                max(price) AS max_price, sum(price) AS sum_price
            FROM bid GROUP BY 1, 2)""",
        ("day", "auction"),
        "day",
    ),
    "q18": Query(
        """SELECT auction, bidder, top.price, top.channel, top.url, top.extra, top.date_time
        FROM (SELECT bidder, auction, max(struct(date_time, p, o, price, channel, url, extra)) AS top
            FROM bid GROUP BY bidder, auction)""",
        ("bidder", "auction"),
    ),
    "q19": Query(
        """SELECT auction, top.bidder, top.price, top.channel, top.url, top.extra, top.date_time,
            CAST(place + 1 AS bigint) AS rank_number
        FROM (SELECT auction, posexplode(slice(sort_array(collect_list(
                struct(-price AS below, date_time, p, o, bidder, price, channel, url, extra))), 1, 10)) AS (place, top)
            FROM bid GROUP BY auction)""",
        ("auction", "rank_number"),
    ),
    "q20": Query(
        """SELECT bid.date_time AS bid_date_time, bid.event_id AS bid, auction, bidder, price, channel, url,
            bid.extra AS bid_extra, item_name, description, initial_bid, reserve, expires, seller, category,
            auction.date_time AS auction_date_time, auction.extra AS auction_extra
        FROM bid JOIN auction ON bid.auction = auction.id WHERE category = 10""",
        ("bid_date_time", "bid"),
        "bid_date_time",
        streams=False,
        around=1,
    ),
    "q21": _each(
        f"""SELECT {_BID}, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
            WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END AS channel_id
        FROM bid WHERE {_CHANNEL} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')"""
    ),
    "q22": _each(
        f"""SELECT {_BID}, channel, get(split(url, '/'), 3) AS dir1, get(split(url, '/'), 4) AS dir2,
            get(split(url, '/'), 5) AS dir3 FROM bid"""
    ),
}
