"""The queries in DuckDB's SQL, over the tables person, auction and bid, each of which has date_time, event_id, p and o.

Written from the benchmark's own SQL and not from the views: a mistake of one isn't in the other.
"""

# ruff: noqa: S608 - put together from texts of this file

from __future__ import annotations

from typing import Final

_WON: Final = """
    from auction join bid on auction.id = bid.auction and bid.date_time between auction.date_time and expires
    qualify row_number() over (partition by auction.id order by price desc, bid.date_time, bid.p, bid.o) = 1"""
_EUROS: Final = "(price::decimal(19, 0) * 0.908::decimal(3, 3))::decimal(23, 3)"
_LEVELS: Final = """
    count(*) as total_bids, count(*) filter (price < 10000) as rank1_bids,
    count(*) filter (price >= 10000 and price < 1000000) as rank2_bids,
    count(*) filter (price >= 1000000) as rank3_bids"""
_DIFFERENT: Final = f"""{_LEVELS}, count(distinct bidder) as total_bidders,
    count(distinct bidder) filter (price < 10000) as rank1_bidders,
    count(distinct bidder) filter (price >= 10000 and price < 1000000) as rank2_bidders,
    count(distinct bidder) filter (price >= 1000000) as rank3_bidders,
    count(distinct auction) as total_auctions,
    count(distinct auction) filter (price < 10000) as rank1_auctions,
    count(distinct auction) filter (price >= 10000 and price < 1000000) as rank2_auctions,
    count(distinct auction) filter (price >= 1000000) as rank3_auctions"""

AVERAGE_OF_ALL_TIME: Final = """
    select category, (sum(final) // count(*))::bigint as average
    from (
        select auction.id, category, max(price) as final
        from auction join bid on auction.id = bid.auction and bid.date_time between auction.date_time and expires
        group by all)
    group by all"""
"""The benchmark's own query 4, without days."""

ANSWERS: Final = {
    "q0": "select date_time, event_id as bid, auction, bidder, price, extra from bid",
    "q1": f"select date_time, event_id as bid, auction, bidder, {_EUROS} as price, extra from bid",
    "q2": "select date_time, event_id as bid, auction, price from bid where auction % 123 = 0",
    "q3": """
        select auction.date_time, auction.id, name, city, state from auction join person on seller = person.id
        where category = 10 and state in ('OR', 'ID', 'CA')""",
    "q4": """
        select date_time::date as day, category, sum(final)::bigint as total, count(*) as auctions,
            (sum(final) // count(*))::bigint as average
        from (
            select auction.id, category, any_value(auction.date_time) as date_time, max(price) as final
            from auction join bid on auction.id = bid.auction and bid.date_time between auction.date_time and expires
            group by all)
        group by all""",
    "q5": """
        with counted as (
            select time_bucket(interval '12 minutes', date_time) - to_minutes(back) as window_start,
                auction, count(*) as num
            from bid cross join (select unnest([0, 12, 24, 36, 48]) as back) group by all)
        select window_start, window_start + interval '1 hour' as window_end, auction, num from counted
        qualify num = max(num) over (partition by window_start)""",
    "q6": f"""
        with won as (select expires as closed, auction.id as auction, seller, price {_WON})
        select closed, auction, seller, price, count(*) over ten as sold,
            (sum(price) over ten // sold)::bigint as average
        from won window ten as (
            partition by seller order by closed, auction rows between 9 preceding and current row)""",
    "q7": """
        select time_bucket(interval '1 minute', date_time) as window_start, auction, bidder, price, extra, date_time
        from bid qualify row_number() over (partition by window_start order by price desc, date_time, p, o) = 1""",
    "q8": """
        with come as (select id, name, time_bucket(interval '12 hours', date_time) as window_start from person),
            sold as (select distinct seller, time_bucket(interval '12 hours', date_time) as window_start from auction)
        select window_start, id, name from come semi join sold
        on come.id = sold.seller and come.window_start = sold.window_start""",
    "q9": f"""
        select auction.id, item_name, description, initial_bid, reserve, auction.date_time, expires, seller, category,
            auction.extra, bid.auction, bidder, price, bid.date_time as bid_date_time, bid.extra as bid_extra {_WON}""",
    "q10": """
        select date_time, event_id as bid, auction, bidder, price, extra,
            strftime(date_time, '%Y-%m-%d') as dt, strftime(date_time, '%H:%M') as hm from bid""",
    "q11": """
        with gaps as (
            select *, date_time >= lag(date_time) over mine + interval '1 hour' as apart
            from bid window mine as (partition by bidder order by date_time, p, o)),
        numbered as (
            select *, count(*) filter (apart) over (partition by bidder order by date_time, p, o) as session from gaps)
        select bidder, count(*) as bid_count, min(date_time) as start_time,
            max(date_time) + interval '1 hour' as end_time
        from numbered group by bidder, session""",
    "q13": """
        with side as (select range as key, 'side-' || (range * 7919 % 10000) as value from range(10000))
        select date_time, event_id as bid, auction, bidder, price, value from bid join side on auction % 10000 = key""",
    "q14": f"""
        select date_time, event_id as bid, auction, bidder, extra,
            {_EUROS} as price,
            case when hour(date_time) >= 8 and hour(date_time) <= 18 then 'dayTime'
                when hour(date_time) <= 6 or hour(date_time) >= 20 then 'nightTime'
                else 'otherTime' end as bid_time_type,
            length(regexp_replace(extra, '[^c]', '', 'g')) as c_counts
        from bid where 908 * bid.price > 1000000000 and 908 * bid.price < 50000000000""",
    "q15": f"select date_time::date as day, {_DIFFERENT} from bid group by day",
    "q16": f"""
        select date_time::date as day, channel, max(strftime(date_time, '%H:%M')) as minute, {_DIFFERENT}
        from bid group by day, channel""",
    "q17": f"""
        select date_time::date as day, auction, {_LEVELS}, min(price) as min_price, max(price) as max_price,
            (sum(price) // count(*))::bigint as avg_price, sum(price)::bigint as sum_price
        from bid group by day, auction""",
    "q18": """
        select auction, bidder, price, channel, url, extra, date_time from bid
        qualify row_number() over (partition by bidder, auction order by date_time desc, p desc, o desc) = 1""",
    "q19": """
        select auction, bidder, price, channel, url, extra, date_time,
            row_number() over (partition by auction order by price desc, date_time, p, o) as rank_number
        from bid qualify rank_number <= 10""",
    "q20": """
        select bid.date_time as bid_date_time, bid.event_id as bid, bid.auction, bidder, price, channel, url,
            bid.extra as bid_extra, item_name, description, initial_bid, reserve, expires, seller, category,
            auction.date_time as auction_date_time, auction.extra as auction_extra
        from bid join auction on bid.auction = auction.id where category = 10""",
    "q21": """
        select date_time, event_id as bid, auction, bidder, price, channel,
            case lower(channel) when 'apple' then '0' when 'google' then '1' when 'facebook' then '2'
                when 'baidu' then '3'
                else nullif(regexp_extract(url, '[&?]channel_id=([^&]*)', 1), '') end as channel_id
        from bid where channel_id is not null""",
    "q22": """
        select date_time, event_id as bid, auction, bidder, price, channel, split_part(url, '/', 4) as dir1,
            split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3 from bid""",
}
"""By the query's short name; the columns are named as the view's."""
