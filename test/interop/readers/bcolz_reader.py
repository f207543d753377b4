"""Reads carrays and columns of ctables with bcolz, or its fork of the same name."""

import bcolz
from protocol import describe, serve


def read(job):
    archive = bcolz.open(job["path"], mode="r")
    if job.get("group"):
        return {"members": list(archive.names), "attrs": dict(archive.attrs)}
    if "column" in job:
        return describe(archive[job["column"]][:], job, {})
    if "length" in job:
        return describe(archive[job["offset"] : job["offset"] + job["length"]], job, {})
    return describe(archive[:], job, dict(archive.attrs))


serve(read)
