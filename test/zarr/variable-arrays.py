"""Writes arrays of text and bytes of variable length with whatever is installed, next to the values that they were made of.

    python test/zarr/variable-arrays.py > test/zarr/variable-arrays-3.json   # zarr 3, xarray, pandas, anndata
    python test/zarr/variable-arrays.py > test/zarr/variable-arrays-2.json   # zarr 2.18

Prints JSON: the objects of a store, documents as text and others in base64, and of each array its path, shape and values; values of
bytes are lists of numbers.
"""

import base64
import importlib.metadata
import json
import tempfile
import warnings
from pathlib import Path

import numcodecs
import numpy as np
import zarr

warnings.simplefilter("ignore")
TEXTS = ["", "a", "Zürich", "東京", "😀 mixed é", "plain ascii", "e\u0301", "line\nbreak", "\ufeffmark", "x" * 30]
BYTES = [b"", b"\x00\x01", b"\xff\xfe", b"text", bytes(range(1, 40))]
VERSION = int(zarr.__version__.split(".")[0])
folder = Path(tempfile.mkdtemp()) / "store.zarr"
arrays = []


def texts(*shape):
    count = int(np.prod(shape))
    return np.array([TEXTS[(i * 7) % len(TEXTS)] for i in range(count)], dtype=object).reshape(shape)


def many(count):
    return np.array([BYTES[i % len(BYTES)] for i in range(count)], dtype=object)


def told(values):
    return [list(each) if isinstance(each, bytes) else str(each) for each in np.asarray(values, dtype=object).ravel()]


def note(path, values):
    arrays.append({"path": path, "shape": list(np.shape(values)), "values": told(values)})


if VERSION == 2:
    root = zarr.open_group(str(folder), mode="w")

    def save(name, values, codec=None, **options):
        made = root.create_dataset(
            name, shape=values.shape, dtype=object, object_codec=codec or numcodecs.VLenUTF8(), **options
        )
        made[...] = values
        note(name, values)

    save("plain", texts(23), chunks=5)
    save("zlib", texts(23), chunks=7, compressor=numcodecs.Zlib(1))
    save("zstd", texts(23), chunks=7, compressor=numcodecs.Blosc("zstd", shuffle=2))
    save("none", texts(23), chunks=23, compressor=None)
    save("fortran", texts(4, 6, 3), chunks=(2, 4, 3), order="F")
    save("bytes", many(17), numcodecs.VLenBytes(), chunks=6)
    save("filled", texts(12), chunks=4, fill_value="absent é")
    sparse = root.create_dataset("sparse", shape=12, chunks=4, dtype=object, object_codec=numcodecs.VLenUTF8())
    sparse[4:6] = ["only", "these"]
    note("sparse", [""] * 4 + ["only", "these"] + [""] * 6)
    summed = texts(9)
    save("summed", summed, chunks=4, filters=[numcodecs.CRC32()])
else:
    import anndata
    import pandas
    import xarray
    from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

    for version in (2, 3):
        root = zarr.open_group(folder / f"v{version}", mode="w", zarr_format=version)

        def save(name, values, dtype="string", **options):
            made = root.create_array(name, shape=np.shape(values), dtype=dtype, **options)
            made[...] = values
            note(f"v{version}/{name}", values)

        save("plain", texts(23), chunks=(5,))
        save("one", texts(1), chunks=(1,))
        save("grid", texts(5, 7), chunks=(2, 3))
        save("filled", texts(12), chunks=(4,), fill_value="absent é")
        made = root.create_array("sparse", shape=(12,), chunks=(4,), dtype="string", fill_value="nothing")
        made[4:6] = np.array(["only", "these"], dtype=object)
        note(f"v{version}/sparse", ["nothing"] * 4 + ["only", "these"] + ["nothing"] * 6)
        save("bytes", many(17), zarr.dtype.VariableLengthBytes(), chunks=(6,))
        if version == 2:
            save("fortran", texts(4, 6), chunks=(2, 4), order="F")
            save("zlib", texts(9), chunks=(4,), compressors=numcodecs.Zlib(1))
            continue
        save("sharded", texts(40), chunks=(4,), shards=(20,))
        save("sharded-grid", texts(6, 10), chunks=(3, 2), shards=(6, 4), compressors=[ZstdCodec(), Crc32cCodec()])
        save("gzip", texts(23), chunks=(5,), compressors=GzipCodec(level=1))
        save("blosc", texts(23), chunks=(5,), compressors=BloscCodec(cname="lz4", shuffle="shuffle", typesize=1))
        save("none", texts(23), chunks=(5,), compressors=None)
        save("turned", texts(4, 6, 3), chunks=(2, 4, 3), filters=TransposeCodec(order=(2, 0, 1)))
        save("fixed", np.array(["ab", "Zü", "東"], dtype="U2"), dtype="U2", chunks=(2,))
        made = root.create_array("ended", shape=(3,), dtype="S4", chunks=(2,))
        made[...] = np.array([b"ab", b"", b"wxyz"])
        note("v3/ended", ["ab", "", "wxyz"])
        made = root.create_array("days", shape=(3,), dtype="M8[D]", chunks=(2,))
        made[...] = np.array(["2020-01-31", "NaT", "1969-12-31"], dtype="M8[D]")
        note("v3/days", ["18292", "-9223372036854775808", "-1"])

    cities = xarray.Dataset(
        {"population": ("city", np.arange(4.0))},
        coords={"city": np.array(["Bern", "Zürich", "東京", "Ålesund"], dtype=object), "code": ("city", ["a", "bb", "ccc", ""])},
    )
    for version in (2, 3):
        cities.to_zarr(folder / f"xarray{version}", zarr_format=version)
        note(f"xarray{version}/city", cities.city.values)
    table = pandas.DataFrame({"name": ["x", "längst", ""], "n": [1, 2, 3]}, index=["r1", "r2", "r3"])
    table.to_xarray().to_zarr(folder / "pandas")
    note("pandas/name", table["name"])
    note("pandas/index", table.index)
    data = anndata.AnnData(
        np.ones((3, 2), dtype="f4"),
        obs=pandas.DataFrame({"kind": pandas.Categorical(["T", "B", "T"]), "note": ["é", "", "long note"]}, index=["c1", "c2", "c3"]),
        var=pandas.DataFrame(index=["geneA", "geneB"]),
    )
    for version in (2, 3):
        anndata.settings.zarr_write_format = version
        data.write_zarr(folder / f"anndata{version}")
        note(f"anndata{version}/obs/_index/values", ["c1", "c2", "c3"])
        note(f"anndata{version}/obs/kind/categories", ["B", "T"])
        note(f"anndata{version}/obs/note/values", ["é", "", "long note"])
        note(f"anndata{version}/var/_index/values", ["geneA", "geneB"])


def stored(file):
    if file.name.startswith(".z") or file.name == "zarr.json":
        return json.dumps(json.loads(file.read_text()))
    return base64.b64encode(file.read_bytes()).decode()


files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
names = ["zarr", "numcodecs", "xarray", "pandas", "anndata"] if VERSION == 3 else ["zarr", "numcodecs"]
print(json.dumps({"versions": {name: importlib.metadata.version(name) for name in names}})[:-1] + ",")
for key, entries in {
    "arrays": arrays,
    "objects": [[file.relative_to(folder).as_posix(), stored(file)] for file in files],
}.items():
    lines = [json.dumps(each, ensure_ascii=False) for each in entries]
    print(f'"{key}": [\n' + ",\n".join(lines) + "\n]" + ("," if key == "arrays" else "}"))
