"""Makes the table with bcolz (`make PATH CNAME ROWS`), or writes its values with pyarrow, synced (`write PATH ROWS`), and prints the seconds and those of the processor."""

import os
import sys
import time

import numpy as np


def columns(rows):
    random = np.random.RandomState(0)
    walk = np.round(100 + np.cumsum(random.normal(0, 0.01, rows)), 2)
    volume = random.randint(0, 10**6, rows).astype("i4")
    return {"t": np.arange(rows, dtype="i8") * 60, "open": walk, "volume": volume, "f": walk.astype("f4")}


what, path, *rest = sys.argv[1:]
values = columns(int(rest[-1]))
if what == "make":
    import bcolz

    settings = bcolz.cparams(clevel=5, shuffle=1, cname=rest[0])
    bcolz.ctable(columns=list(values.values()), names=list(values), rootdir=path, mode="w", cparams=settings).flush()
else:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(values)
    start, processor = time.perf_counter(), time.process_time()
    pyarrow.parquet.write_table(table, path, compression="lz4")
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    print(time.perf_counter() - start, time.process_time() - processor)
