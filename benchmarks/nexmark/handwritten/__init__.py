"""The same queries as somebody would write them for one plain Spark job each: in SQL, over the landing table."""
