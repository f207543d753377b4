"""Reads Bloscpack files with bloscpack: plain bytes with their metadata, or numpy arrays."""

import bloscpack
from protocol import describe, describe_bytes, serve


def read(job):
    if "dtype" not in job:
        data, metadata = bloscpack.unpack_bytes_from_file(job["path"])
        return describe_bytes(data, metadata or {})
    return describe(bloscpack.unpack_ndarray_from_file(job["path"]), job, {})


serve(read)
