"""Reads an array again and again while another program writes it.

Value `i` of the array is `1000 * i` and the number of times that it was set, below 1000; its fill value is -1. A read ends
with values or with an error; values that are none of these are wrong. The answer's shape is [reads, errors, wrong values,
reads through an array that had been opened before].
"""

import sys
import time

import numpy as np
from protocol import serve

LIBRARY = sys.argv[1]

if LIBRARY == "tensorstore":
    import tensorstore
else:
    import zarr

    if LIBRARY == "zarrs":
        import zarrs  # noqa: F401  registers the pipeline

        # Without `strict`, what zarrs does not support is silently read by zarr-python.
        zarr.config.set({"codec_pipeline": {"path": "zarrs.ZarrsCodecPipeline", "strict": True}})


def open_array(path):
    if LIBRARY == "tensorstore":
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}
        return tensorstore.open(spec, open=True, read=True).result()
    return zarr.open_array(path, mode="r")


def read_rows(array, start, stop):
    if LIBRARY == "tensorstore":
        return array[start:stop].read().result()
    return array[start:stop]


def read(job):
    random = np.random.default_rng(1)
    end = time.monotonic() + job["seconds"]
    reads = errors = wrong = kept = 0
    first = None
    array = None
    while time.monotonic() < end:
        try:
            # Every third time a new array, as it is now; in between the shape that was.
            if array is None or reads % 3 == 0:
                array = open_array(job["path"])
            else:
                kept += 1
            length = array.shape[0]
            if reads % 2 == 0 or length == 0:
                start, stop = 0, length
            else:
                start = int(random.integers(0, length))
                stop = int(random.integers(start, length)) + 1
            values = np.asarray(read_rows(array, start, stop))
            bad = np.flatnonzero(values // 1000 != np.arange(start, stop))
            wrong += len(bad)
            if len(bad) > 0 and first is None:
                first = "row %d is %d" % (start + bad[0], values[bad[0]])
        except Exception as error:
            errors += 1
            array = None
            if first is None:
                first = "%s: %s" % (type(error).__name__, str(error)[:200])
        reads += 1
    return {"shape": [reads, errors, wrong, kept], "sha256": "", "attrs": {"first": first}}


serve(read)
