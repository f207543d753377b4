"""Reads arrays of the experimental Zarr v3 with sharding storage transformers, with zarr 2.18."""

import os

os.environ["ZARR_V3_EXPERIMENTAL_API"] = "1"
os.environ["ZARR_V3_SHARDING"] = "1"

import zarr  # noqa: E402  the variables must be set before
from protocol import describe, serve  # noqa: E402


def read(job):
    store = zarr.DirectoryStoreV3(job["path"])
    array = zarr.open_array(store=store, path=job.get("arrayPath") or None, mode="r", zarr_version=3)
    return describe(array[...], job, dict(array.attrs))


serve(read)
