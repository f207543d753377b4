"""Reads Zarr v3 over HTTP with zarr-python, xarray or tensorstore, whose name is the argument."""

import sys

import numpy as np
from protocol import describe, join_fields, serve

READER = sys.argv[1]


def read(job):
    if job.get("fields"):
        return describe(join_fields(job, read_values), job)
    return describe(read_values(job["path"]), job)


def read_with_zarr(url):
    import zarr

    return zarr.open(url, mode="r")[...]


def read_with_tensorstore(url):
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": url + "/"}
    return tensorstore.open(spec, read=True).result().read().result()


def read_with_xarray(url):
    """xarray reads groups: the array is taken out of the one that it is in."""
    import xarray

    group, _, name = url.rpartition("/")
    # Dates stay what is stored, and no value counts as missing.
    dataset = xarray.open_zarr(group, mask_and_scale=False, decode_times=False, chunks=None)
    return dataset[name].values


read_values = {"zarr": read_with_zarr, "tensorstore": read_with_tensorstore, "xarray": read_with_xarray}[READER]

serve(read)
