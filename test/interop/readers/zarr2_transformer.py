"""Reads arrays of the experimental Zarr v3 with sharding storage transformers, with zarr 2.18."""

import os

os.environ["ZARR_V3_EXPERIMENTAL_API"] = "1"
os.environ["ZARR_V3_SHARDING"] = "1"

import numpy as np  # noqa: E402
import zarr  # noqa: E402  the variables must be set before
from protocol import describe, parse_dtype, serve  # noqa: E402


def read(job):
    store = zarr.DirectoryStoreV3(job["path"])
    if job.get("make") == "zarr":
        written = zarr.open_array(store=store, path=job.get("arrayPath"), mode="r+", zarr_version=3)
        written[...] = np.fromfile(job["from"], parse_dtype(job["dtype"])).reshape(job["shape"])
    array = zarr.open_array(store=store, path=job.get("arrayPath"), mode="r", zarr_version=3)
    return describe(array[...], job, dict(array.attrs))


serve(read)
