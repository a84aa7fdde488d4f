"""A relation of Spark over given Parquet files, with given partition values of their folders.

Spark reads these values off the paths by itself only if all such folders of a table are at one depth. As an expression
over the path of its file, the value costs each row more than a column that is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.storage import storage_of
from anabranch.lake.log.commit_errors import unreadable_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SOURCES: Final = "org.apache.spark.sql.execution.datasources"


def rows_in_files(
    spark: SparkSession,
    files: Sequence[Path],
    stored: StructType,
    partition: StructType,
    values: Mapping[Path, date | None],
) -> DataFrame:
    """The rows of ``files`` (at least one): their columns ``stored``, then the column ``partition`` with the value of
    each file's folder. Without ``values`` the table has no partitions, and ``partition`` no column. Raises BrokenState
    FILE_UNREADABLE if one is missing."""
    from pyspark.sql import DataFrame

    jvm = _Jvm(spark, files[0])
    session: Any = spark._jsparkSession
    columns, partition_columns = jvm.schema(stored), jvm.schema(partition)
    none, some = jvm.named("scala.Option").empty(), jvm.named("scala.Option").apply
    options, no_cache = jvm.object("scala.collection.immutable.Map").empty(), jvm.object(f"{_SOURCES}.NoopCache")
    partitions = some(jvm.partitions(partition_columns, values)) if values else none
    index = jvm.named(f"{_SOURCES}.InMemoryFileIndex")(
        session, jvm.paths(files), options, some(columns), no_cache, partitions, none
    )
    listed = index.allFiles()
    if listed.size() != len(files):  # Spark logs a warning, and goes on without it
        missing = [str(file) for file in files if not storage_of(file).exists(file)]
        raise unreadable_file(", ".join(missing[:3]), FileNotFoundError(f"{len(missing)} files are missing"))
    folder = str(listed.head().getPath().getParent().toString())
    if values and folder not in map(jvm.qualified, values):  # Spark would take its files for none
        raise RuntimeError(
            f"{folder} isn't among the folders with values, which are like {jvm.qualified(files[0].parent)}"
        )
    form = jvm.named(f"{_SOURCES}.parquet.ParquetFileFormat")()
    relation = jvm.named(f"{_SOURCES}.HadoopFsRelation")(
        index, partition_columns, columns, none, form, options, session
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


class _Jvm:
    """The session's JVM. Each call takes some 0.1 ms, so there are few for each folder and none for each file."""

    def __init__(self, spark: SparkSession, file: Path) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        path = self.named("org.apache.hadoop.fs.Path")(str(file))
        self._root = str(path.getFileSystem(conf).makeQualified(path).toString()).removesuffix(str(file))

    def named(self, name: str) -> Any:
        """The Java class of this name. As an attribute of py4j's object it would be looked for in all JARs."""
        from py4j.java_gateway import JavaClass

        return JavaClass(name, self._gateway._gateway_client)

    def object(self, name: str) -> Any:
        """Scala's object of this name."""
        return getattr(self.named(f"{name}$"), "MODULE$")

    def schema(self, schema: StructType) -> Any:
        """Nothing in a file holds it to a column that has no nulls, so Spark's readers don't plan on that either."""
        return self.named("org.apache.spark.sql.types.DataType").fromJson(schema.json()).asNullable()

    def paths(self, files: Iterable[Path]) -> Any:
        """A sequence of Hadoop's paths."""
        names = self.named("java.util.regex.Pattern").compile("\0").split("\0".join(map(self.qualified, files)))
        return self._sequence(self.named("org.apache.hadoop.util.StringUtils").stringToPath(names))

    def partitions(self, columns: Any, values: Mapping[Path, date | None]) -> Any:
        row = self.named("org.apache.spark.sql.catalyst.expressions.GenericInternalRow")
        rows = {value: row(1) for value in set(values.values())}  # of one column: null, until it is set
        for value, cells in rows.items():
            if value is not None:
                cells.setInt(0, value.toordinal() - _EPOCH_DAY)
        partition = self.named(f"{_SOURCES}.PartitionPath")
        found, made = self._gateway.new_array(partition, len(values)), partition.apply
        for number, (folder, value) in enumerate(values.items()):
            found[number] = made(rows[value], self.qualified(folder))
        return self.named(f"{_SOURCES}.PartitionSpec")(columns, self._sequence(found))

    def qualified(self, path: Path) -> str:
        """As Spark names what it has listed: with Hadoop's name of the file system before it."""
        return f"{self._root}{path}"

    def _sequence(self, array: Any) -> Any:
        return self.object("scala.collection.immutable.ArraySeq").unsafeWrapArray(array)
