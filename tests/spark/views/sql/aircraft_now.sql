-- view: aircraft_now_sql
-- version: 1
-- events: flight.departed, flight.arrived
-- key: tailnum
WITH moved AS (
  SELECT tailnum, event_time, log_partition, log_offset, carrier, flight, origin AS airport, true AS in_air FROM flight_departed
  UNION ALL
  SELECT tailnum, event_time, log_partition, log_offset, carrier, flight, dest, false FROM flight_arrived
),
newest AS (
  SELECT tailnum, max(struct(event_time, log_partition, log_offset, carrier, flight, airport, in_air)) AS state
  FROM moved
  WHERE tailnum IS NOT NULL
  GROUP BY tailnum
)
SELECT tailnum, concat(state.carrier, state.flight) AS last_flight, state.airport AS last_airport, state.in_air, state.event_time AS since
FROM newest
