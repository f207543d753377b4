"""Reads archives with the reference reader, which was written from FORMAT.md alone."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "reference-reader"))

import blpk  # noqa: E402
from protocol import describe, describe_bytes, serve  # noqa: E402


def read(job):
    archive = blpk.open_archive(job["path"])
    if job.get("group"):
        return {"members": list(archive.columns), "attrs": archive.attrs}
    if archive.kind == "bytes":
        return describe_bytes(archive.values(), archive.attrs)
    if "column" in job:
        return describe(archive.values()[job["column"]], job, {})
    return describe(archive.values(), job, archive.attrs)


serve(read)
