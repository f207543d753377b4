"""Writes with bloscpack or bcolz what the job says, and changes what is there: what our writers are compared with.

Jobs: {"make": "bytes" | "array" | "append" | "carray" | "chunklen" | "grow" | "trim" | "addcol", ...}; paths are absolute.
"""

import hashlib
import json

import numpy as np
from protocol import parse_dtype, serve


def values_of(job):
    with open(job["from"], "rb") as file:
        values = np.frombuffer(file.read(), parse_dtype(job["dtype"]))
    return values.reshape(job.get("shape", [-1]), order=job.get("order", "C"))


def digest(path):
    with open(path, "rb") as file:
        data = file.read()
    return {"shape": [len(data)], "sha256": hashlib.sha256(data).hexdigest(), "attrs": {}}


def blosc_args(settings):
    from bloscpack.args import BloscArgs

    return BloscArgs(settings["typesize"], settings["clevel"], settings["shuffle"], settings["cname"])


def with_bloscpack(job):
    import bloscpack
    from bloscpack.append import _rewrite_metadata_fp, _seek_to_metadata, append
    from bloscpack.args import BloscpackArgs, MetadataArgs
    from bloscpack.file_io import pack_file_to_file
    from bloscpack.numpy_io import pack_ndarray_to_file

    settings = job["settings"]
    if job["make"] == "append":
        append(job["path"], job["from"], dict(blosc_args(settings)))
        if "metadata" in job:
            # As its command does after an append.
            with open(job["path"], "r+b") as file:
                _seek_to_metadata(file)
                _rewrite_metadata_fp(file, json.loads(job["metadata"]), **job["newMetadata"])
        return digest(job["path"])
    room = settings["max_app_chunks"]
    factor = (lambda n: int(room[:-1]) * n) if isinstance(room, str) else room
    common = {
        "chunk_size": settings["chunk_size"],
        "blosc_args": blosc_args(settings),
        "bloscpack_args": BloscpackArgs(settings["offsets"], settings["checksum"], factor),
    }
    if job["make"] == "array":
        pack_ndarray_to_file(values_of(job), job["path"], **common)
    else:
        metadata = json.loads(job["metadata"]) if "metadata" in job else None
        pack_file_to_file(job["from"], job["path"], metadata=metadata, metadata_args=MetadataArgs(), **common)
    return digest(job["path"])


def with_bcolz(job):
    import bcolz

    make = job["make"]
    if make == "chunklen":
        array = bcolz.carray(np.zeros(1, "f8"), expectedlen=job["rows"])
        return {"shape": [array.chunklen], "sha256": "", "attrs": {}}
    if make == "carray":
        bcolz.carray(values_of(job), rootdir=job["path"], mode="w", chunklen=job["chunklen"]).flush()
    else:
        archive = bcolz.open(job["path"], mode="a")
        if make == "grow":
            archive.append(archive[:])
        elif make == "trim":
            archive.trim(job["rows"])
        elif make == "addcol":
            archive.addcol(np.arange(len(archive)), name="added")
        archive.flush()
    return {"shape": [len(bcolz.open(job["path"], mode="r"))], "sha256": "", "attrs": {}}


def write(job):
    return with_bloscpack(job) if "settings" in job else with_bcolz(job)


serve(write)
