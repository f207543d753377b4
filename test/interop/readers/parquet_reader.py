"""Reads a column of a Parquet or Arrow file with pyarrow, DuckDB, Polars, DataFusion (arrow-rs), Spark or fastparquet, whose name is the argument.

The values come back in the numpy dtype of the source, so that their hash is that of the source's bytes.
"""

import functools
import sys

import numpy as np
import pyarrow as pa
from protocol import describe, parse_dtype, serve

READER = sys.argv[1]
TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def read_served(url):
    """A file of a server, through fsspec where the reader has nothing of its own."""
    import fsspec

    if READER == "pyarrow":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(fsspec.open(url).open())
    if READER == "polars":
        import polars

        return polars.scan_parquet(url).collect().to_arrow()
    import datetime

    import duckdb
    from fsspec.implementations.http import HTTPFileSystem

    class Served(HTTPFileSystem):
        def modified(self, path):
            return datetime.datetime.now(datetime.timezone.utc)

    connection = duckdb.connect()
    connection.register_filesystem(Served())
    found = connection.sql("select * from read_parquet('%s')" % url).arrow()
    return found if isinstance(found, pa.Table) else found.read_all()


@functools.cache
def spark_session():
    from pyspark.sql import SparkSession

    # One thread and one task for each file, so that rows keep their order.
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.sql.session.timeZone", "UTC")
    # Spark has no nanoseconds: they are numbers.
    session = builder.config("spark.sql.legacy.parquet.nanosAsLong", "true").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@functools.lru_cache(maxsize=1)
def read_with_spark(path):
    """Spark has no unsigned types and no halves: a checked cast brings those of the file back."""
    import pyarrow.parquet

    schema = pyarrow.parquet.read_schema(path)
    # The vectorized reader does not know unsigned integers in BYTE_STREAM_SPLIT.
    vectorized = path.endswith("compatible.parquet") or not any("uint" in str(kind) for kind in schema.types)
    session = spark_session()
    session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    return session.read.parquet(path).toArrow().cast(schema)


def read_table(path):
    if path.startswith("http:"):
        return read_served(path)
    if READER == "pyarrow":
        import pyarrow.feather
        import pyarrow.parquet

        if path.endswith(".arrow"):
            return pyarrow.feather.read_table(path)
        table = pyarrow.parquet.read_table(path)
        assert {b"superchunk", b"pandas"} <= set(table.schema.metadata), table.schema.metadata
        return table
    if READER == "duckdb":
        import duckdb

        found = duckdb.sql("select * from read_parquet('%s')" % path).arrow()
        return found if isinstance(found, pa.Table) else found.read_all()
    if READER == "polars":
        import polars

        read = polars.read_ipc if path.endswith(".arrow") else polars.read_parquet
        return read(path).to_arrow()
    if READER == "datafusion":
        import datafusion

        return datafusion.SessionContext().read_parquet(path).to_arrow_table()
    if READER == "spark":
        return read_with_spark(path)
    import fastparquet

    frame = fastparquet.ParquetFile(path).to_pandas()
    for name in frame.columns:
        # Dates come as objects that are counts of nanoseconds.
        if frame[name].dtype == object and len(frame) and all(isinstance(value, (int, type(None))) for value in frame[name]):
            frame[name] = [np.datetime64("NaT") if value is None else np.datetime64(value, "ns") for value in frame[name]]
    return pa.Table.from_pandas(frame, preserve_index=False)


def flatten(column):
    """The innermost values of lists."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    while pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    return column


def to_numpy(column, dtype):
    column = flatten(column)
    if dtype.fields is not None:
        joined = np.empty(len(column), dtype)
        for name in dtype.names:
            kind, shape = (dtype[name].subdtype or (dtype[name], ()))
            joined[name] = to_numpy(column.field(name), kind).reshape((len(column),) + shape)
        return joined
    if dtype.kind == "c":
        parts = [to_numpy(column.field(name), np.dtype("f%d" % (dtype.itemsize // 2))) for name in ("real", "imag")]
        joined = np.empty(len(column), dtype)
        joined.real, joined.imag = parts
        return joined
    if dtype.kind in "SUV":
        texts = column.to_pylist()
        if dtype.kind != "U":
            texts = [text.encode() if isinstance(text, str) else text for text in texts]
        return np.array(texts, dtype)
    if dtype.kind in "mM":
        return to_time(column, dtype)
    if column.null_count:
        raise TypeError("there are nulls in %s" % column.type)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind != dtype.kind or values.dtype.itemsize < dtype.itemsize:
        raise TypeError("values are %s, not %s" % (values.dtype, dtype))
    return values.astype(dtype)


def to_time(column, dtype):
    """Null is NaT. Readers with no unit of nanoseconds are given no values that need them."""
    there = np.array(column.is_valid())
    kind = column.type
    if pa.types.is_date32(kind):
        found = column.cast(pa.int32()).fill_null(0).to_numpy().astype("M8[D]")
    else:
        found = column.cast(pa.int64()).fill_null(0).to_numpy()
        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            found = found.astype("%s8[%s]" % (dtype.kind, kind.unit))
    out = found.astype(dtype)
    out[~there] = "NaT"
    return out


def read(job):
    table = read_table(job["path"])
    # Without a name, all columns: the fields of an array of structs.
    name = job.get("column", "value")
    values = to_numpy(table.to_struct_array() if name == "" else table[name], parse_dtype(job["dtype"]))
    return describe(values.reshape(job["shape"]), job)


serve(read)
