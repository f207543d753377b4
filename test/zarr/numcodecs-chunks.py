"""Writes numcodecs-chunks.json: chunks that numcodecs encoded, and what it decodes them to.

    python test/zarr/numcodecs-chunks.py > test/zarr/numcodecs-chunks.json
"""

import base64
import json
import sys

import numcodecs
import numpy as np
from numcodecs.compat import ensure_ndarray

random = np.random.default_rng(7)
halves = np.round(random.random(50), 2)
words = random.integers(-(2**63), 2**63 - 1, 50, dtype="i8")
halving = np.random.default_rng(8)
small = np.round(halving.random(60) * 10.0 ** halving.integers(-7, 4, 60), 7).astype("<f2")
small[:3] = [0.0, -0.0, 65000]
CASES = [
    ("<f8", halves, [numcodecs.Shuffle(8)]),
    ("<i4", np.arange(50, dtype="<i4") ** 2, [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)]),
    (">i4", np.arange(50, dtype=">i4") * 300, [numcodecs.Delta(">i4", ">i2")]),
    ("<i8", words, [numcodecs.Delta("<i8")]),
    ("|u1", random.integers(0, 255, 50, dtype="u1"), [numcodecs.Delta("|u1")]),
    ("<f4", halves.astype("f4"), [numcodecs.Delta("<f4")]),
    ("<f8", halves, [numcodecs.Delta("<f8", "<f4")]),
    ("<f8", halves.astype("f4").astype("f8"), [numcodecs.AsType("<f4", "<f8")]),
    ("<f4", words.astype("f4"), [numcodecs.AsType("<i8", "<f4")]),
    ("<f8", halves, [numcodecs.FixedScaleOffset(0, 100, "<f8", "<i2")]),
    ("<f4", halves.astype("f4"), [numcodecs.FixedScaleOffset(0.5, 100, "<f4", "|u1")]),
    ("<f4", halves.astype("f4"), [numcodecs.FixedScaleOffset(0.1, 7, "<f4")]),
    ("<i8", np.arange(1000, 1050), [numcodecs.FixedScaleOffset(1000, 1, "<i8", "|i1")]),
    ("<f8", halves, [numcodecs.Quantize(3, "<f8", "<f4")]),
    ("<f8", halves, [numcodecs.BitRound(12)]),
    ("|b1", halves > 0.5, [numcodecs.PackBits()]),
    ("<f8", halves, [numcodecs.CRC32(), numcodecs.Adler32()]),
    ("<f8", halves, [numcodecs.CRC32(location="end"), numcodecs.CRC32C()]),
    ("|u1", random.integers(0, 255, 4001, dtype="u1"), [numcodecs.Fletcher32()]),
    ("<f4", halves.astype("f4"), [numcodecs.Shuffle(4), numcodecs.Zlib(3), numcodecs.Fletcher32()]),
    ("<f8", np.arange(50.0), [numcodecs.LZ4()]),
    ("<f8", np.arange(50.0), [numcodecs.Shuffle(8), numcodecs.Zlib(1)]),
    ("<f8", np.arange(50.0), [numcodecs.Shuffle(8), numcodecs.GZip(1)]),
    ("<f8", np.arange(50.0), [numcodecs.Shuffle(8), numcodecs.Zstd(3)]),
    ("<f8", np.arange(50.0), [numcodecs.BitRound(12), numcodecs.Blosc(cname="zstd", shuffle=1)]),
    ("<f2", small, [numcodecs.Delta("<f2")]),
    (">f2", small.astype(">f2"), [numcodecs.Delta(">f2")]),
    ("<f4", small.astype("f4"), [numcodecs.AsType("<f2", "<f4")]),
    ("<f2", small, [numcodecs.AsType("<f8", "<f2")]),
    ("<f2", small, [numcodecs.FixedScaleOffset(0.1, 7, "<f2")]),
    ("<f4", small.astype("f4"), [numcodecs.FixedScaleOffset(0.1, 7, "<f4", "<f2")]),
    ("<f2", small[:30] / 256, [numcodecs.FixedScaleOffset(0.1, 7, "<f2", "<i2")]),
    ("<f2", small, [numcodecs.Quantize(2, "<f2")]),
]


def text(values) -> str:
    return base64.b64encode(ensure_ndarray(values).tobytes()).decode()


chunks = []
for dtype, values, filters in CASES:
    encoded = np.ascontiguousarray(values)
    for each in filters:
        encoded = each.encode(encoded)
    decoded = encoded
    for each in reversed(filters):
        decoded = each.decode(decoded)
    configs = [each.get_config() for each in filters]
    chunks.append({"dtype": dtype, "filters": configs, "encoded": text(encoded), "decoded": text(decoded)})
json.dump({"numcodecs": numcodecs.__version__, "numpy": np.__version__, "chunks": chunks}, sys.stdout, indent=1)
print()
