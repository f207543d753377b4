"""Times libblosc through python-blosc, one thread: a line of JSON on stdin asks, a line of JSON on stdout answers.

`{"job": …}` prepares a job, and is answered with what it makes; `{"seconds": s}` runs it for about so long, and is answered with
the seconds of all chunks.
"""

import json
import sys
import time

import blosc
import numpy

blosc.set_nthreads(1)
FILTERS = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def work_of(job):
    with open(job["file"], "rb") as file:
        chunks = [file.read(length) for length in job["lengths"]]
    if job["work"] == "decode":
        out = numpy.empty(job["nbytes"], "u1")

        def decode():
            for chunk in chunks:
                blosc.decompress_ptr(chunk, out.__array_interface__["data"][0])

        return decode
    shuffle, typesize, clevel, cname = FILTERS[job["shuffle"]], job["typesize"], job["clevel"], job["cname"]
    return lambda: sum(len(blosc.compress(chunk, typesize, clevel, shuffle, cname)) for chunk in chunks)


def timed(work, calls):
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return time.perf_counter() - start


def count_calls(work, seconds):
    calls = 1
    while (taken := timed(work, calls)) < seconds / 2:
        calls = int(calls * min(10, seconds / max(taken, 1e-6))) + 1
    return calls


work = None
calls = None
for line in sys.stdin:
    request = json.loads(line)
    if "job" in request:
        work, calls = work_of(request["job"]), None
        made = work()
        answer = {"size": made}
    elif "seconds" in request:
        calls = calls or count_calls(work, request["seconds"])
        answer = {"seconds": timed(work, calls) / calls}
    else:
        answer = {"version": blosc.blosclib_version}
    print(json.dumps(answer), flush=True)
