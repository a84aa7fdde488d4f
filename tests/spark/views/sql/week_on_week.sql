-- view: week_on_week_sql
-- version: 1
-- events: flight.departed
-- key: day, origin
-- partition by: day
-- lookback: 7 days
-- refresh: partitions
WITH daily AS (
  SELECT to_date(event_time) AS day, origin, count(*) AS flights FROM flight_departed GROUP BY 1, 2
)
SELECT daily.day, daily.origin, daily.flights, coalesce(before.flights, 0L) AS week_before
FROM daily
LEFT JOIN daily AS before ON before.origin = daily.origin AND date_add(before.day, 7) = daily.day
