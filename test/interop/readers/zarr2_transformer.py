"""Reads and writes arrays of the experimental Zarr v3 with sharding storage transformers, and of version 2, with zarr 2.18."""

import os

os.environ["ZARR_V3_EXPERIMENTAL_API"] = "1"
os.environ["ZARR_V3_SHARDING"] = "1"

import numcodecs  # noqa: E402
import numpy as np  # noqa: E402
import zarr  # noqa: E402  the variables must be set before
from protocol import describe, parse_dtype, serve  # noqa: E402


def call(job, store):
    """Changes the chunks of an array through its transformer, and tells all that are there, parts of some, and a folder."""
    chunks = zarr.open_array(store=store, path=job["arrayPath"], mode="r+", zarr_version=3).chunk_store
    for name, key, *rest in job["calls"]:
        if name == "set":
            chunks[key] = bytes.fromhex(rest[0])
        elif name == "setPartial":
            chunks.set_partial_values([(key, rest[0], bytes.fromhex(rest[1]))])
        elif name == "erase":
            chunks.erase(key)
        else:
            chunks.erase_prefix(key)
    folder = "data/root/" + job["arrayPath"] + "/"
    listed = ["%s %s" % (key, bytes(chunks[key]).hex()) for key in sorted(chunks.list_prefix(folder))]
    parts = chunks.get_partial_values([(key, (start, length)) for key, start, length in job["parts"]])
    listed += ["none" if part is None else bytes(part).hex() for part in parts]
    keys, prefixes = chunks.list_dir(folder)
    return {"members": listed + sorted(keys) + sorted(prefixes), "attrs": {}}


def write_version2(job):
    settings = dict(job["version2"])
    compressor = settings.pop("compressor")
    values = np.fromfile(job["from"], parse_dtype(job["dtype"])).reshape(job["shape"])
    array = zarr.open_array(
        zarr.DirectoryStore(job["path"]),
        mode="w",
        shape=values.shape,
        dtype=values.dtype,
        fill_value=0,
        compressor=None if compressor is None else numcodecs.get_codec(compressor),
        write_empty_chunks=False,
        zarr_version=2,
        **settings
    )
    array[...] = values
    return describe(array[...], job, dict(array.attrs))


def read(job):
    if job.get("make") == "version 2":
        return write_version2(job)
    store = zarr.DirectoryStoreV3(job["path"])
    if job.get("make") == "calls":
        return call(job, store)
    if job.get("make") == "zarr":
        written = zarr.open_array(store=store, path=job.get("arrayPath"), mode="r+", zarr_version=3)
        written[...] = np.fromfile(job["from"], parse_dtype(job["dtype"])).reshape(job["shape"])
    array = zarr.open_array(store=store, path=job.get("arrayPath"), mode="r", zarr_version=3)
    return describe(array[...], job, dict(array.attrs))


serve(read)
