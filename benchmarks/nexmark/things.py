"""What persons, auctions and bids are made of: one function each, for as many event numbers as there are.

Ids count the things of a kind from 1,000, so the newest id at any event follows from the event's number alone. Those
that are picked may be up to ten ahead of it: then the bid comes before its auction, the auction before its seller.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import numpy as np
import polars as pl
from anabranch_samples.flights import instant

from benchmarks.nexmark.texts import Numbers, Random, padding, picked, words

GAP: Final = timedelta(milliseconds=4320)
"""The time between two events."""
FIRST_ID: Final = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
AHEAD, ACTIVE_PERSONS, OPEN_AUCTIONS = 10, 1000, 100
HOT_EVERY: Final = 100
"""One thing in a hundred is the hot one, until the next hundred begins."""
LONGEST_AUCTION: Final = 2 * (OPEN_AUCTIONS * 50 // 3) * GAP
"""Twice the time in which as many auctions are opened as are open at once: they last half of it on average."""
CHANNELS: Final = 10_000
HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")


def newest_person(number: Numbers) -> Numbers:
    """The newest person at these event numbers, counted from 0."""
    return number // 50


def newest_auction(number: Numbers) -> Numbers:
    """The newest auction at these event numbers, counted from 0; -1 before there is one."""
    return number // 50 * 3 + np.clip(number % 50 - 1, -1, 2)


def persons(random: Random, facts: pl.DataFrame) -> pl.DataFrame:
    count = facts.height
    name = picked(random, count, _FIRST_NAMES) + " " + picked(random, count, _LAST_NAMES)
    email = words(random, count, 7, "_") + "@" + words(random, count, 5, "_") + ".com"
    card = [pl.Series(random.integers(0, 10_000, count)).cast(pl.String).str.zfill(4) for _ in range(4)]
    made = facts.with_columns(
        pl.Series("id", newest_person(facts["number"].to_numpy()) + FIRST_ID),
        name.alias("name"),
        email.alias("email_address"),
        (card[0] + " " + card[1] + " " + card[2] + " " + card[3]).alias("credit_card"),
        picked(random, count, _CITIES).alias("city"),
        picked(random, count, _STATES).alias("state"),
    )
    texts = ("name", "email_address", "credit_card", "city", "state")
    made = _padded(random, made, texts, 8, 200)
    data = _json(_number("id"), *(_text(column) for column in (*texts, "extra")))
    return _named(made, "person", pl.col("id"), data)


def auctions(random: Random, facts: pl.DataFrame) -> pl.DataFrame:
    number, count = facts["number"].to_numpy(), facts.height
    person = newest_person(number)
    hot = random.integers(0, 4, count) > 0
    seller = np.where(hot, person // HOT_EVERY * HOT_EVERY, _some_person(random, person)) + FIRST_ID
    opening, reserve = _prices(random, count), _prices(random, count)
    lasts = random.integers(1, LONGEST_AUCTION // timedelta(milliseconds=1), count)
    made = facts.with_columns(
        pl.Series("id", newest_auction(number) + FIRST_ID),
        words(random, count, 20).alias("item_name"),
        words(random, count, 100).alias("description"),
        pl.Series("initial_bid", opening),
        pl.Series("reserve", opening + reserve),
        (facts["time"] + pl.Series(lasts).cast(pl.Duration("ms")).cast(pl.Duration("us"))).alias("expires"),
        pl.Series("seller", seller),
        pl.Series("category", random.integers(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES, count)),
    )
    made = _padded(random, made, ("item_name", "description"), 48, 500)
    expires = pl.format('"expires":"{}"', instant("expires"))
    numbers = [_number(column) for column in ("id", "initial_bid", "reserve", "seller", "category")]
    data = _json(*numbers, expires, *(_text(column) for column in ("item_name", "description", "extra")))
    return _named(made, "auction", pl.col("id"), data)


def bids(random: Random, facts: pl.DataFrame) -> pl.DataFrame:
    number, count = facts["number"].to_numpy(), facts.height
    person, auction = newest_person(number), newest_auction(number)
    oldest = np.maximum(auction - OPEN_AUCTIONS, 0)
    other = oldest + random.integers(0, auction - oldest + 1 + AHEAD)
    to_hot, by_hot = random.integers(0, 2, count) > 0, random.integers(0, 4, count) > 0
    chosen = np.where(to_hot, auction // HOT_EVERY * HOT_EVERY, other) + FIRST_ID
    bidder = np.where(by_hot, person // HOT_EVERY * HOT_EVERY + 1, _some_person(random, person)) + FIRST_ID
    channels = _channels(random)
    hot_channel = random.integers(0, 2, count) > 0
    which = np.where(
        hot_channel,
        random.integers(0, len(HOT_CHANNELS), count),
        random.integers(len(HOT_CHANNELS), channels.height, count),
    )
    made = facts.with_columns(
        pl.Series("auction", chosen),
        pl.Series("bidder", bidder),
        pl.Series("price", _prices(random, count)),
        channels["channel"].gather(which),
        channels["url"].gather(which),
    )
    made = _padded(random, made, (), 32, 100)
    numbers = [_number(column) for column in ("auction", "bidder", "price")]
    data = _json(*numbers, *(_text(column) for column in ("channel", "url", "extra")))
    return _named(made, "bid", pl.col("number"), data)


def _some_person(random: Random, newest: Numbers) -> Numbers:
    """One of the newest 1,000 persons, or of the next ten."""
    active = np.minimum(newest + 1, ACTIVE_PERSONS)
    chosen: Numbers = newest + 1 - active + random.integers(0, active + AHEAD)
    return chosen


def _prices(random: Random, count: int) -> Numbers:
    return np.rint(10 ** (6 * random.random(count)) * 100).astype(np.int64)


def _channels(random: Random) -> pl.DataFrame:
    """The four hot channels and the others, each with its one URL; nine in ten of the others say their id in it."""
    count = len(HOT_CHANNELS) + CHANNELS
    folders = [words(random, count, 5, "_") for _ in range(3)]
    base = "https://www.nexmark.com/" + folders[0] + "/" + folders[1] + "/" + folders[2] + "/item.htm?query=1"
    told = pl.Series(random.integers(0, 10, count) > 0) & (pl.Series(range(count)) >= len(HOT_CHANNELS))
    identity = pl.Series(random.integers(0, 2**31, count)).cast(pl.String)
    frame = pl.DataFrame({"base": base, "told": told, "id": identity})
    names = [*HOT_CHANNELS, *(f"channel-{n}" for n in range(CHANNELS))]
    url = pl.when("told").then(pl.format("{}&channel_id={}", "base", "id")).otherwise("base")
    return frame.select(pl.Series("channel", names), url.alias("url"))


def _padded(random: Random, made: pl.DataFrame, texts: tuple[str, ...], fixed: int, mean: int) -> pl.DataFrame:
    sizes = made.select(fixed + pl.sum_horizontal(pl.lit(0), *(pl.col(text).str.len_bytes() for text in texts)))
    each = np.broadcast_to(sizes.to_series().to_numpy().astype(np.int64), made.height)
    return made.with_columns(padding(random, each, mean).alias("extra"))


def _named(made: pl.DataFrame, kind: str, identity: pl.Expr, data: pl.Expr) -> pl.DataFrame:
    """Each event is its own subject, and so its own key: with auctions as keys half of the bids of two hours are in one
    partition of the log, and landing, which reads so many records of each, finds the others' events late."""
    named = pl.format(f"{kind}/{{}}", identity)
    return made.select("number", "time", "publish_time", named.alias("identity"), data.alias("data"))


def _json(*members: pl.Expr) -> pl.Expr:
    return pl.concat_str([pl.lit("{"), pl.concat_str(members, separator=","), pl.lit("}")])


def _text(column: str) -> pl.Expr:
    # no escaping: all texts are of letters, digits and a few marks, and every event is checked before it is sent
    return pl.format(f'"{column}":"{{}}"', column)


def _number(column: str) -> pl.Expr:
    return pl.format(f'"{column}":{{}}', column)
