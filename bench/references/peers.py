"""Writes the same references as `superchunk virtualize`, with kerchunk's and VirtualiZarr's own means.

peers.py SCAN_OF FORM TARGET: SCAN_OF is a bcolz folder or a Bloscpack file with offsets, FORM is json, parquet or
icechunk. Neither project knows these formats: the scan is ours, in numpy. Prints {"seconds", "peakMB", "chunks"}; seconds
count from after the imports.
"""
import json
import os
import resource
import sys
import time

import numpy as np

source, form, target = sys.argv[1:]


def scan_folder(path):
    storage = json.load(open(f"{path}/meta/storage"))
    rows = json.load(open(f"{path}/meta/sizes"))["shape"][0]
    count = rows // storage["chunklen"]
    lengths = np.empty(count, "u8")
    paths = [f"file://{path}/data/__{i}.blp" for i in range(count)]
    modified = 0.0
    for i in range(count):
        with open(f"{path}/data/__{i}.blp", "rb") as file:
            lengths[i] = int.from_bytes(file.read(32)[28:32], "little")
            modified = max(modified, os.fstat(file.fileno()).st_mtime)
    return paths, np.full(count, 16, "u8"), lengths, storage["chunklen"], modified


def scan_file(path):
    with open(path, "rb") as file:
        head = file.read(64)
    count = int.from_bytes(head[16:24], "little")
    room = int.from_bytes(head[48:52], "little")
    table = 64 + room + 4
    data = np.memmap(path, "u1", "r")
    offsets = np.frombuffer(data[table : table + 8 * count].tobytes(), "<u8")
    assert offsets[0] == table + 8 * count, "the table is elsewhere"
    lengths = np.empty(count, "u8")
    for at in range(0, count, 100_000):
        part = offsets[at : at + 100_000]
        fields = data[part[:, None] + np.arange(12, 16, dtype="u8")]
        lengths[at : at + 100_000] = np.ascontiguousarray(fields).view("<u4")[:, 0]
    rows = int.from_bytes(head[8:12], "little") // 8
    return [f"file://{path}"] * count, offsets, lengths, rows, os.stat(path).st_mtime


def blosc(version):
    if version == 2:
        return {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    settings = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}


def document(count, rows):
    return {
        "zarr_format": 3, "node_type": "array", "shape": [count * rows], "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [rows]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0, "attributes": {}, "dimension_names": ["row"],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, blosc(3)],
    }


def write_json(paths, offsets, lengths, rows):
    import ujson

    refs = {"zarr.json": json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})}
    refs["x/zarr.json"] = json.dumps(document(len(paths), rows))
    for i, (path, offset, length) in enumerate(zip(paths, offsets.tolist(), lengths.tolist())):
        refs[f"x/c/{i}"] = [path, offset, length]
    with open(target, "w") as file:
        ujson.dump({"version": 1, "refs": refs}, file)


def write_parquet(paths, offsets, lengths, rows):
    import fsspec
    from fsspec.implementations.reference import LazyReferenceMapper

    os.makedirs(target)
    out = LazyReferenceMapper.create(target, fs=fsspec.filesystem("file"), record_size=100_000)
    zarray = {"zarr_format": 2, "shape": [len(paths) * rows], "chunks": [rows], "dtype": "<f8", "order": "C",
              "fill_value": 0.0, "filters": None, "compressor": blosc(2)}
    out[".zgroup"] = b'{"zarr_format": 2}'
    out["x/.zarray"] = json.dumps(zarray).encode()
    out["x/.zattrs"] = b'{"_ARRAY_DIMENSIONS": ["row"]}'
    for i, (path, offset, length) in enumerate(zip(paths, offsets.tolist(), lengths.tolist())):
        out[f"x/{i}"] = [path, offset, length]
    out.flush()


def write_icechunk(paths, offsets, lengths, rows, modified):
    import datetime
    import math

    import icechunk
    import xarray
    from virtualizarr.manifests import ChunkManifest, ManifestArray
    from zarr.core.metadata.v3 import ArrayV3Metadata

    manifest = ChunkManifest.from_arrays(
        paths=np.array(paths, dtype=np.dtypes.StringDType()), offsets=offsets, lengths=lengths
    )
    array = ManifestArray(metadata=ArrayV3Metadata.from_dict(document(len(paths), rows)), chunkmanifest=manifest)
    dataset = xarray.Dataset({"x": (["row"], array)})
    prefix = f"file://{os.path.dirname(source)}/"
    config = icechunk.RepositoryConfig.default()
    store = icechunk.local_filesystem_store(os.path.dirname(source))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(target), config, authorize_virtual_chunk_access={prefix: None}
    )
    session = repository.writable_session("main")
    when = datetime.datetime.fromtimestamp(math.ceil(modified), datetime.timezone.utc)
    dataset.vz.to_icechunk(session.store, last_updated_at=when)
    session.commit("references")


# Imports are not what is measured.
if form == "icechunk":
    import icechunk, virtualizarr, xarray  # noqa: E401,F401
elif form == "parquet":
    import fastparquet, fsspec.implementations.reference, pandas  # noqa: E401,F401
started = time.perf_counter()
paths, offsets, lengths, rows, modified = (scan_folder if os.path.isdir(source) else scan_file)(source)
if form == "json":
    write_json(paths, offsets, lengths, rows)
elif form == "parquet":
    write_parquet(paths, offsets, lengths, rows)
else:
    write_icechunk(paths, offsets, lengths, rows, modified)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(json.dumps({"seconds": time.perf_counter() - started, "peakMB": round(peak), "chunks": len(paths)}))
