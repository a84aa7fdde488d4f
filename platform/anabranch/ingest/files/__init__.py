"""Loads files of history into landing: Parquet, CSV, JSON lines and Avro, from folders or S3 (ADR 0042).

In: files. Out: epochs of their own in a landing table, whose valid rows have the decision ``loaded``. The order:

1. ``load_files`` takes the files one after the other (``addresses``: which; ``remote``: copies those in S3);
2. ``prepare`` reads a whole file into rows of bytes: ``json_lines``, or ``columns`` with ``column_json`` (Parquet, CSV,
   and Avro by ``avro_blocks``). What can't be read to its end is refused here;
3. ``file_epochs`` decodes some hundred thousand rows at a time and commits them. After a kill it goes on where it was;
4. ``problems`` counts what is wrong with rows, in the words of their format.
"""

from anabranch.ingest.files.load_files import FileReport, LoadReport, load

__all__ = ["FileReport", "LoadReport", "load"]
