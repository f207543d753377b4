"""Times libblosc through python-blosc, one thread: jobs as JSON on stdin, median seconds as JSON on stdout."""

import json
import statistics
import sys
import time

import blosc
import numpy

blosc.set_nthreads(1)
FILTERS = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def seconds(work, rounds=11, round_seconds=0.03):
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        taken = time.perf_counter() - start
        if taken >= round_seconds / 2:
            break
        calls *= 4
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


results = []
for job in json.load(sys.stdin):
    data = open(job["file"], "rb").read()
    if job["work"] == "decode":
        out = numpy.empty(job["nbytes"], "u1")
        address = out.__array_interface__["data"][0]
        results.append({"seconds": seconds(lambda: blosc.decompress_ptr(data, address))})
    else:

        def encode():
            return blosc.compress(data, job["typesize"], job["clevel"], FILTERS[job["shuffle"]], job["cname"])

        results.append({"seconds": seconds(encode), "size": len(encode())})
json.dump({"version": blosc.blosclib_version, "results": results}, sys.stdout)
