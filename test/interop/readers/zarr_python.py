"""Reads arrays and groups with zarr-python; with `--zarrs` through zarrs' codec pipeline, which may not fall back."""

import sys

import numpy as np
import zarr
from protocol import describe, join_fields, parse_dtype, serve

STRICT_ZARRS = "--zarrs" in sys.argv[1:]

# Reading a grid of unequal chunks is an experiment that must be allowed.
zarr.config.set({"array.rectilinear_chunks": True})
if STRICT_ZARRS:
    import zarrs  # noqa: F401  registers the pipeline

    # Without `strict`, what zarrs does not support is silently read by zarr-python.
    zarr.config.set({"codec_pipeline": {"path": "zarrs.ZarrsCodecPipeline", "strict": True}})


def read(job):
    if job.get("make") == "zarr":
        return write_array(job)
    if job.get("group"):
        return read_group(job["path"], (True,) if job.get("use") == "listed" else (True, False))
    if job.get("fields"):
        return describe(join_fields(job, lambda path: open_array(path)[...]), job)
    array = open_array(job["path"])
    if "fill" in job:
        check_fill(array, job)
    return describe(values_of(array, job), job, dict(array.attrs))


def values_of(array, job):
    values = array[...]
    if not job.get("text"):
        return values
    longest = max(len(each) for each in values.ravel())
    if longest > parse_dtype(job["dtype"]).itemsize // 4:
        raise ValueError("there is a text of %d characters" % longest)
    return values.astype(parse_dtype(job["dtype"]))


def write_array(job):
    """Writes values to an array that has a document, and reads them back unless asked not to."""
    array = open_array(job["path"], "r+")
    array[...] = np.fromfile(job["from"], parse_dtype(job["dtype"])).reshape(job["shape"])
    if not job.get("readBack", True):
        return {"done": True}
    return describe(values_of(open_array(job["path"]), job), job)


def open_array(path, mode="r"):
    array = zarr.open_array(path, mode=mode)
    pipeline = type(array._async_array.codec_pipeline).__name__
    if (pipeline == "ZarrsCodecPipeline") != STRICT_ZARRS:
        raise RuntimeError("read through %s" % pipeline)
    return array


def read_group(path, ways):
    """A group with all that is below it, as its consolidated metadata tell it, and (unless only these are used) as its folders do."""
    answer = None
    for consolidated in ways:
        group = zarr.open_group(path, mode="r", use_consolidated=consolidated)
        found = {"members": sorted(name for name, _ in group.members(max_depth=None)), "attrs": dict(group.attrs)}
        if answer is not None and found != answer:
            raise ValueError("consolidated metadata differ: %r, %r" % (answer, found))
        answer = found
    return answer


def check_fill(array, job):
    wanted = np.asarray(job["fill"]).astype(parse_dtype(job["dtype"]))
    found = np.asarray(array.fill_value).astype(parse_dtype(job["dtype"]))
    if wanted.tobytes() != found.tobytes():
        raise ValueError("fill value is %r, not %r" % (array.fill_value, job["fill"]))


serve(read)
