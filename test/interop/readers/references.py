"""Runs the lines that open virtual references, and hashes what they give.

Reads a JSON list of {id, lines, names, dtypes, virtualizarr} on stdin; prints a JSON line for each: {id, values: {name:
[shape, sha256]}} or {id, error}.
"""
import hashlib
import json
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")


def digest(array, dtype):
    values = np.asarray(array)
    wanted = np.dtype(dtype) if dtype else values.dtype.newbyteorder("<")
    # Days of zipline have CF's units, "seconds since 1970-01-01", which xarray decodes.
    if wanted.kind == "u" and values.dtype.kind == "M":
        values = values.astype("datetime64[s]").astype("int64").astype(wanted)
    # Texts and dates may come in a wider type, numbers may not.
    if wanted.kind in "biufc" and values.dtype.newbyteorder("<") != wanted.newbyteorder("<"):
        raise TypeError(f"values of {values.dtype}, expected {wanted}")
    return [list(values.shape), hashlib.sha256(values.astype(wanted, copy=False).tobytes()).hexdigest()]


def read_with_virtualizarr(path, names):
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import KerchunkJSONParser, KerchunkParquetParser

    parser = KerchunkJSONParser() if path.endswith(".json") else KerchunkParquetParser()
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    return open_virtual_dataset("file://" + path, registry=registry, parser=parser, loadable_variables=names)


for case in json.load(sys.stdin):
    try:
        if case.get("virtualizarr"):
            dataset = read_with_virtualizarr(case["virtualizarr"], case["names"])
        else:
            scope = {}
            exec(case["lines"], scope)
            dataset = scope["dataset"]
        dtypes = case.get("dtypes", {})
        values = {name: digest(dataset[name].values, dtypes.get(name)) for name in case["names"]}
        answer = {"id": case["id"], "values": values}
    except Exception as error:
        answer = {"id": case["id"], "error": f"{type(error).__name__}: {error}"[:400]}
    print(json.dumps(answer), flush=True)
