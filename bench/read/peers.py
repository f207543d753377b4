"""Times a reader of arrays: whole scans and random elements. Prints one line of JSON with all rounds."""

import json
import random
import sys
import time

import numpy


def open_array(engine, path):
    if engine == "bcolz-zipline":
        import bcolz

        return bcolz.open(path, mode="r")
    if engine == "tensorstore":
        import tensorstore

        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}
        return tensorstore.open(spec).result()
    import zarr

    if engine == "zarrs":
        import zarrs  # noqa: F401

        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    return zarr.open_array(path, mode="r")


def scan(engine, array, step):
    """Reads everything, `step` items at a time, and touches it."""
    length = array.shape[0]
    total = 0
    for start in range(0, length, step):
        part = array[start : min(length, start + step)]
        values = part.read().result() if engine == "tensorstore" else part
        total += values[:1].tobytes()[0]
    return total


def element(engine, array, index):
    value = array[index]
    return float(value.read().result()) if engine == "tensorstore" else float(numpy.asarray(value))


def main():
    engine, path, rounds, step, picks = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    array = open_array(engine, path)
    dtype = array.dtype.numpy_dtype if engine == "tensorstore" else array.dtype
    nbytes = array.shape[0] * dtype.itemsize
    chooser = random.Random(1)
    scans, elements = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        scan(engine, array, step)
        scans.append(nbytes / (time.perf_counter() - start))
        indices = [chooser.randrange(array.shape[0]) for _ in range(picks)]
        taken = []
        for index in indices:
            start = time.perf_counter()
            element(engine, array, index)
            taken.append(time.perf_counter() - start)
        elements.append(sorted(taken)[len(taken) // 2])
    print(json.dumps({"scan": scans, "element": elements}))


main()
