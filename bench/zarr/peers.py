"""Reads and writes the benchmark's sharded array with one of the peers; prints one JSON object of times in seconds."""

import json
import shutil
import sys
import time

import numpy as np

peer, path, target, plan = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

if peer == "tensorstore":
    import tensorstore

    def open_array(folder, write=False):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": folder + "/"}}
        return tensorstore.open(spec, read=True, write=write).result()

    def read(array, start, stop):
        return array[start:stop].read().result()

    def write(array, values):
        array.write(values).result()

else:
    import zarr

    if peer == "zarrs":
        import zarrs  # noqa: F401  registers the pipeline

        zarr.config.set({"codec_pipeline": {"path": "zarrs.ZarrsCodecPipeline", "strict": True}})

    def open_array(folder, write=False):
        return zarr.open_array(folder, mode="r+" if write else "r")

    def read(array, start, stop):
        return array[start:stop]

    def write(array, values):
        array[...] = values


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def repeat(work, prepare=lambda: None):
    """The middle one of five times."""
    times = []
    for _ in range(5):
        prepare()
        times.append(timed(work))
    return sorted(times)[2]


array = open_array(path)
read(array, 0, 1)


def read_elements():
    for at in plan["elements"]:
        read(array, at, at + 1)


def read_slices():
    for start, stop in plan["slices"]:
        read(array, start, stop)


times = {
    "element": timed(read_elements) / len(plan["elements"]),
    "slices": repeat(read_slices),
    "all": repeat(lambda: read(array, 0, plan["items"])),
}
values = read(array, 0, plan["items"])


def make_empty():
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target, ignore=shutil.ignore_patterns("c"))


times["write"] = repeat(lambda: write(open_array(target, write=True), values), make_empty)
shutil.rmtree(target)
print(json.dumps(times))
