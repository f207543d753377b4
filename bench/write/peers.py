"""Writes arrays with one of the peers; prints one line of JSON: seconds to synced data, and without the sync.

Chunks are what each peer would take: bcolz chooses its own, zarr-python and tensorstore have 1 MiB, python-blosc2 one batch.
"""

import json
import os
import random
import resource
import shutil
import sys
import time

import numpy as np

engine, folder, sample, plan = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
prices = np.fromfile(sample, dtype=plan.get("dtype", "<f8"))
rows, batch, changes = plan["rows"], plan["batch"], plan["changes"]
CHUNK = 131_072


def sync(path):
    """Makes every file and folder under a path durable."""
    for where, _, names in os.walk(path):
        for each in [os.path.join(where, name) for name in names] + [where]:
            descriptor = os.open(each, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
    if os.path.isfile(path):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def size(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names)


def remove(path):
    shutil.rmtree(path, ignore_errors=True)
    if os.path.exists(path):
        os.remove(path)


class Bcolz:
    def __init__(self, path, expected):
        import bcolz

        params = bcolz.cparams(clevel=5, shuffle=1, cname="lz4")
        self.array = bcolz.carray(np.empty(0), rootdir=path, expectedlen=expected, cparams=params, mode="w")

    def append(self, values):
        self.array.append(values)

    def change(self, index, value):
        self.array[index] = value

    def flush(self):
        self.array.flush()


class Zarr:
    shards = None

    def __init__(self, path, expected):
        import zarr
        from zarr.codecs import BloscCodec

        codec = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=8)
        self.array = zarr.create_array(
            path, shape=(0,), chunks=(CHUNK,), shards=self.shards, dtype="<f8", compressors=codec
        )

    def append(self, values):
        self.array.append(values)

    def change(self, index, value):
        self.array[index] = value

    def flush(self):
        pass


class ZarrSharded(Zarr):
    shards = (16 * CHUNK,)


class TensorStore:
    def __init__(self, path, expected):
        import tensorstore

        blosc = {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 8}}
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": path + "/"},
            "metadata": {
                "shape": [0],
                "data_type": "float64",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK]}},
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, blosc],
            },
        }
        self.array = tensorstore.open(spec, create=True, delete_existing=True).result()
        self.rows = 0

    def append(self, values):
        end = self.rows + len(values)
        self.array = self.array.resize(exclusive_max=[end], expand_only=True).result()
        self.array[self.rows : end].write(values).result()
        self.rows = end

    def change(self, index, value):
        self.array[index].write(value).result()

    def flush(self):
        pass


class Blosc2:
    def __init__(self, path, expected):
        import blosc2

        width = prices.itemsize
        cparams = {"codec": blosc2.Codec.LZ4, "clevel": 5, "typesize": width, "filters": [blosc2.Filter.SHUFFLE]}
        self.array = blosc2.SChunk(chunksize=width * batch, urlpath=path, mode="w", cparams=cparams)

    def append(self, values):
        self.array.append_data(values)

    def change(self, index, value):
        self.array[index : index + 1] = np.array([value])

    def flush(self):
        pass


ENGINES = {
    "bcolz-zipline": Bcolz,
    "zarr-python": Zarr,
    "zarr-python, shards": ZarrSharded,
    "tensorstore": TensorStore,
    "python-blosc2": Blosc2,
}


def timed(path, work):
    start = time.perf_counter()
    work()
    unsynced = time.perf_counter() - start
    sync(path)
    return {"synced": time.perf_counter() - start, "unsynced": unsynced}


def fill(path):
    array = ENGINES[engine](path, rows)
    for row in range(0, rows, batch):
        at = row % len(prices)
        array.append(prices[at : at + min(batch, rows - row)])
    array.flush()
    return array


def change(array):
    chooser = random.Random(9)
    for i in range(changes):
        array.change(chooser.randrange(rows), float(i))
    array.flush()


def append_singles(path):
    array = ENGINES[engine](path, plan["singles"])
    for i in range(plan["singles"]):
        array.append(prices[i % len(prices) : i % len(prices) + 1])
    array.flush()


path = os.path.join(folder, "peer")
results = {"append": []}
for _ in range(plan["rounds"]):
    remove(path)
    os.sync()
    held = []
    results["append"].append(timed(path, lambda: held.append(fill(path))))
results["bytes"] = size(path)
if "dtype" in plan:
    remove(path)
    print(json.dumps(results))
    sys.exit()
results["change"] = timed(path, lambda: change(held[0]))
results["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
if engine == "bcolz-zipline":
    remove(path)
    results["singles"] = timed(path, lambda: append_singles(path))
remove(path)
print(json.dumps(results))
