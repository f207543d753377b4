"""What the readers share: jobs come in as one JSON list, answers go out as one JSON line each.

A job is {"id", "path", "dtype", ...}; an answer {"id", "shape", "sha256", "attrs"}, {"id", "done"} or {"id", "error"}.
The hash is of the values in C order and in the byte order of the job's dtype, as the corpus defines it.
Runs on Python 3.7 and later, on any numpy.
"""

import hashlib
import json
import sys

import numpy as np


def parse_dtype(spelling):
    """A numpy dtype from the manifest's spelling: a string, or a list of fields."""
    if isinstance(spelling, str):
        return np.dtype(spelling)
    return np.dtype([tuple(tuple(part) if isinstance(part, list) else part for part in field) for field in spelling])


def describe(values, job, attrs=None):
    """The answer for values that were read. Refuses to turn one type into another: only byte order may change."""
    values = np.asarray(values)
    wanted = parse_dtype(job["dtype"])
    if values.dtype.newbyteorder("=") != wanted.newbyteorder("="):
        raise TypeError("values are %s, not %s" % (values.dtype.str, wanted.str))
    data = np.ascontiguousarray(values, dtype=wanted).tobytes()
    return {"shape": list(values.shape), "sha256": hashlib.sha256(data).hexdigest(), "attrs": attrs}


def join_fields(job, read_values):
    """A structured array made of a group with an array for each field."""
    wanted = parse_dtype(job["dtype"])
    columns = [np.asarray(read_values(job["path"] + "/" + name)) for name in wanted.names]
    joined = np.empty(columns[0].shape, wanted)
    for name, column in zip(wanted.names, columns):
        if column.dtype.newbyteorder("=") != wanted[name].newbyteorder("="):
            raise TypeError("field %s is %s, not %s" % (name, column.dtype.str, wanted[name].str))
        joined[name] = column
    return joined


def describe_bytes(data, attrs):
    """The answer for plain bytes."""
    return {"shape": [len(data)], "sha256": hashlib.sha256(data).hexdigest(), "attrs": attrs}


def serve(read):
    """Answers every job with what `read(job)` returns, or with its error."""
    answers = sys.stdout
    # A library that prints must not get between the answers.
    sys.stdout = sys.stderr
    for job in json.load(sys.stdin):
        try:
            answer = read(job)
        except Exception as error:
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        answer["id"] = job["id"]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
