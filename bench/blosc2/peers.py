"""What python-blosc2 makes and measures.

peers.py make FOLDER: chunks of 32 MB by four codecs, and `large.b2nd`, 800 MB of prices in lz4.
peers.py decode FILE ROUNDS: prints the seconds of each decoding into one buffer, in one thread.
peers.py compare FILE FOLDER: prints true where the frame and the Zarr array have the same values.
"""
import json
import os
import sys
import time

import blosc2
import numpy as np

verb, path, *rest = sys.argv[1:]
blosc2.set_nthreads(1)


def prices(count):
    rng = np.random.default_rng(0)
    return np.round(100 + np.cumsum(rng.normal(0, 0.01, count)), 2)


if verb == "make":
    rng = np.random.default_rng(1)
    data = {"prices": prices(4 << 20), "volume": np.cumsum(rng.integers(-3, 4, 8 << 20)).astype("i4")}
    for name, values in data.items():
        for codec in ("BLOSCLZ", "LZ4", "ZLIB", "ZSTD"):
            chunk = blosc2.compress2(values, typesize=values.itemsize, codec=getattr(blosc2.Codec, codec), clevel=5)
            with open(os.path.join(path, f"{name}-{codec.lower()}.chunk"), "wb") as out:
                out.write(chunk)
    whole = prices(100_000_000)
    target = os.path.join(path, "large.b2nd")
    blosc2.asarray(whole, urlpath=target, mode="w", cparams={"codec": blosc2.Codec.LZ4, "clevel": 5})
elif verb == "decode":
    chunk = open(path, "rb").read()
    out = np.empty(blosc2.get_cbuffer_sizes(chunk)[0], "u1")
    seconds = []
    for _ in range(int(rest[0])):
        start = time.perf_counter()
        blosc2.decompress2(chunk, dst=out, nthreads=1)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))
else:
    import zarr

    array, copy = blosc2.open(path), zarr.open_array(rest[0], mode="r")
    step = 10_000_000
    parts = range(0, array.shape[0], step)
    print(json.dumps(all(np.array_equal(array[i : i + step], copy[i : i + step]) for i in parts)))
