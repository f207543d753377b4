"""Writes numpy-dtypes.json: how numpy itself spells dtypes, and what they take. Run with numpy 1.26.4."""
import json

import numpy as np

CASES = [
    "bool", "i1", "u1", ">i2", "<u4", "i8", "f2", ">f4", "f8", "f16", "c8", ">c16", "c32",
    "S5", "U3", ">U7", "V2", "S0", "M8", "M8[ns]", ">M8[D]", "M8[25s]", "m8[us]", "m8", "O",
    [("a", "<i4"), ("v", "<f4", (3,))],
    [("p", [("x", "<i2"), ("y", ">f8")]), ("q", "|S3")],
    {"names": ["a", "b"], "formats": ["i1", "<i4"], "offsets": [0, 4], "itemsize": 12},
    {"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [4, 0], "itemsize": 8},
    {"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2]},
    {"names": ["a", "v"], "formats": ["<i4", ("<f4", (2,))], "offsets": [8, 0], "itemsize": 16},
    [(("title", "name"), "<i4"), ("b", "?")],
    [("it's", "<i4"), ('é"', "|u1"), ("b\\n", "<f8"), ("\x7f\t", "<i2")],
    [("m", "<M8[ns]", (2, 3))],
    [("s", [("t", [("u", "<c8", (2,))], (2,))])],
]

rows = []
for case in CASES:
    dtype = np.dtype(case)
    row = {"str": str(dtype), "repr": repr(dtype), "itemsize": dtype.itemsize}
    if dtype.names is None:
        row["descr"] = dtype.descr[0][1]
        row["descr_repr"] = repr(dtype.descr[0][1])
    else:
        row["offsets"] = {name: dtype.fields[name][1] for name in dtype.names}
        try:
            row["descr"] = dtype.descr
            row["descr_repr"] = repr(dtype.descr)
        except ValueError:  # out of order or overlapping: has no descr
            pass
    rows.append(row)

text = json.dumps(rows, ensure_ascii=False).replace('}, {"str"', '},\n{"str"')
open("numpy-dtypes.json", "w", encoding="utf-8").write(text + "\n")
