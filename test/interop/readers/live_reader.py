"""Reads an array repeatedly while another program writes it.

Value `i` of the array is `1000 * i` plus the number of times that it was set, which is below 1000. The fill value is -1. A read
ends with values or with an error, and any other value is wrong. One case is counted separately: rows were removed with whole
shards and partly added again while the reader still had the former shape. Then the fill values after the last row in its chunk,
up to the end of the read, are not wrong. The answer's shape is [reads, errors, wrong values, reads through an array that was
opened earlier, such fill values].
"""

import sys
import time

import numpy as np
from protocol import serve

LIBRARY = sys.argv[1]
FILL = -1
# Reads with values that there must be, however slow a busy machine is; seconds more that they may take.
ENOUGH = 30
PATIENCE = 120

if LIBRARY == "tensorstore":
    import tensorstore
else:
    import zarr

    if LIBRARY == "zarrs":
        import zarrs  # noqa: F401  registers the pipeline

        # Without `strict`, what zarrs does not support is silently read by zarr-python.
        zarr.config.set({"codec_pipeline": {"path": "zarrs.ZarrsCodecPipeline", "strict": True}})


def open_array(path, keeps):
    """Opens the array as it is now; `keeps`: tensorstore looks at no index or chunk again that it has read."""
    if LIBRARY == "tensorstore":
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}
        if keeps:
            spec["context"] = {"cache_pool": {"total_bytes_limit": 100_000_000}}
            spec["recheck_cached_data"] = False
        return tensorstore.open(spec, open=True, read=True).result()
    return zarr.open_array(path, mode="r")


def read_rows(array, start, stop):
    if LIBRARY == "tensorstore":
        return array[start:stop].read().result()
    return array[start:stop]


def chunk_rows(array):
    if LIBRARY == "tensorstore":
        return array.chunk_layout.read_chunk.shape[0]
    return array.chunks[0]


def is_past_the_end(bad, values, start, chunk):
    """True for fill values up to the end of the read, all in one chunk."""
    return bool(
        np.all(values[bad] == FILL)
        and bad[-1] == len(values) - 1
        and len(bad) == bad[-1] - bad[0] + 1
        and (start + bad[0]) // chunk == (start + bad[-1]) // chunk
        and (start + bad[0]) % chunk != 0
    )


def read(job):
    random = np.random.default_rng(1)
    end = time.monotonic() + job["seconds"]
    reads = errors = wrong = kept = past_end = 0
    first_error = first_wrong = None
    opened = 0
    array = None
    while time.monotonic() < end or (reads - errors < ENOUGH and time.monotonic() < end + PATIENCE):
        try:
            # Now and then a new array, as it is now; in between the shape that was.
            if array is None or reads % (3 + 20 * (opened % 2)) == 0:
                array = open_array(job["path"], opened % 2 == 0)
                opened += 1
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
            if len(bad) > 0 and is_past_the_end(bad, values, start, chunk_rows(array)):
                past_end += len(bad)
            elif len(bad) > 0:
                wrong += len(bad)
                if first_wrong is None:
                    details = [(start + int(at), int(values[at])) for at in (bad[0], bad[-1])]
                    first_wrong = "rows %d to %d: %d from %s to %s" % (start, stop, len(bad), *details)
        except Exception as error:
            errors += 1
            array = None
            if first_error is None:
                first_error = "%s: %s" % (type(error).__name__, str(error)[:200])
        reads += 1
    details = {"error": first_error, "wrong": first_wrong}
    return {"shape": [reads, errors, wrong, kept, past_end], "sha256": "", "attrs": details}


serve(read)
