"""The same conversion with zarr-python: every chunk is decoded and encoded again."""

import json
import pathlib
import sys

import numpy
import zarr
from numcodecs import blosc
from zarr.codecs import BloscCodec

source, target = map(pathlib.Path, sys.argv[1:3])
sizes = json.loads((source / "meta" / "sizes").read_text())
storage = json.loads((source / "meta" / "storage").read_text())
chunklen = storage["chunklen"]
shard = 128 * chunklen
array = zarr.create_array(
    store=str(target),
    shape=sizes["shape"],
    dtype=storage["dtype"],
    chunks=(chunklen,),
    shards=(shard,),
    compressors=BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=8),
)
nchunks = -(-sizes["shape"][0] // chunklen)
for first in range(0, nchunks, 128):
    parts = []
    for number in range(first, min(nchunks, first + 128)):
        data = (source / "data" / f"__{number}.blp").read_bytes()
        parts.append(numpy.frombuffer(blosc.decompress(data[16:]), storage["dtype"]))
    values = numpy.concatenate(parts)
    array[first * chunklen : first * chunklen + len(values)] = values
