-- view: departure_delays_sql
-- version: 1
-- events: flight.departed
-- key: origin, window_start
-- partition by: window_start
-- doc: Flights, flights delayed over 15 minutes and minutes of delay, per hour of scheduled departure and origin.

SELECT origin,
       window.start AS window_start,
       window.end AS window_end,
       count(*) AS flights,
       count_if(dep_delay > 15) AS delayed,
       sum(dep_delay) AS delay_minutes,
       -- Computed from two exact sums, so it is equal in both paths.
       CAST(sum(dep_delay) / CAST(count(*) AS DECIMAL(18, 0)) AS DECIMAL(18, 3)) AS average_delay
FROM flight_departed
GROUP BY window(event_time, '1 hour'), origin;
