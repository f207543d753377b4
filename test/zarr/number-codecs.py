"""Writes number-codecs.json: arrays that zarr-python encoded with scale_offset and cast_value, and what it decodes them to.

    pip install zarr==3.4.2 cast-value-rs crc32c
    python test/zarr/number-codecs.py > test/zarr/number-codecs.json
"""

import base64
import json
import sys
import warnings

import numpy as np
import zarr
from zarr.codecs import BytesCodec, CastValue, ScaleOffset, ZstdCodec
from zarr.codecs.numcodecs import CRC32C

warnings.simplefilter("ignore")
zarr.config.set({"json_indent": None})
tenths = np.round(np.arange(-12, 12) * 0.1, 1)
halves = np.arange(-12, 12) / 2
holes = np.where(np.arange(24) % 5 == 3, np.nan, tenths)
every = np.where(np.arange(24) % 5 == 3, [np.inf, -np.inf, -0.0, np.nan] * 6, tenths)
whole = np.arange(-12, 12)
MAP = {"encode": [["NaN", -32768]], "decode": [[-32768, "NaN"]]}
CASES = {
    "scale f8": (every, [ScaleOffset(offset=0.1, scale=3)], {}),
    "scale f4": (every.astype("f4"), [ScaleOffset(offset=0.1, scale=3)], {}),
    "scale >f8": (every, [ScaleOffset(offset="NaN", scale=3)], {"serializer": BytesCodec(endian="big")}),
    "scale i2": (whole.astype("i2"), [ScaleOffset(offset=5, scale=-300)], {}),
    "scale i8": (whole * 2**52, [ScaleOffset(offset=2**60, scale=3)], {}),
    "scale u8": (np.arange(24, dtype="u8") + 2**63, [ScaleOffset(offset=2**63, scale=7)], {"fill_value": 2**63}),
    "offset u1": (np.arange(24, dtype="u1"), [ScaleOffset()], {}),
    "packed": (holes, [ScaleOffset(offset=-1.2, scale=100), CastValue(data_type="int16", scalar_map=MAP)], {}),
    "packed in shards": (
        holes.reshape(4, 6),
        [ScaleOffset(offset=-1.2, scale=100), CastValue(data_type="int16", scalar_map=MAP)],
        {"chunks": (2, 3), "shards": (4, 6), "serializer": BytesCodec(endian="big")},
    ),
    "f8 as f4": (every, [CastValue(data_type="float32", rounding="towards-zero")], {}),
    "f8 as f2": (every, [CastValue(data_type="float16", out_of_range="clamp")], {}),
    "f4 as u1": (halves.astype("f4"), [CastValue(data_type="uint8", out_of_range="wrap")], {}),
    "i8 as f4": (whole * 1000, [CastValue(data_type="float32")], {}),
    "u1 as i8": (np.arange(24, dtype="u1"), [CastValue(data_type="int64")], {"serializer": BytesCodec()}),
    "u8 as f8": (np.arange(24, dtype="u8") << 59, [CastValue(data_type="float64")], {}),
    "crc32c": (tenths, [], {"compressors": [ZstdCodec(), CRC32C()]}),
}
# What a chunk of other values decodes to: the array is written without the codec's limits, and read with these.
READ = {
    mode: (np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, -1.2, 1.7]), "int16", {"rounding": mode})
    for mode in ("nearest-even", "nearest-away", "towards-zero", "towards-positive", "towards-negative")
}
READ["clamped"] = (np.array([1e9, -1e9, 70000.0, 3.0]), "int16", {"out_of_range": "clamp"})
READ["wrapped"] = (np.array([10**9, -(10**9), 70000, 3]), "int16", {"out_of_range": "wrap"})
READ["wrapped u8"] = (np.array([-1, -(2**63), 5]), "uint64", {"out_of_range": "wrap"})
READ["clamped u8"] = (np.array([-1.0, 2.0**64, 2.0**63]), "uint64", {"out_of_range": "clamp"})
READ["clamped i8"] = (np.array([2.0**63, -(2.0**70), -(2.0**63)]), "int64", {"out_of_range": "clamp"})
READ["wrapped i4"] = (np.array([2**32 + 5, -(2**40) - 1, 7]), "int32", {"out_of_range": "wrap"})
READ["clamped f4"] = (np.array([1e300, -1e300, np.nan, 1.1]), "float32", {"out_of_range": "clamp"})
READ["f8 as f4 of i8"] = (np.array([2**24 + 1, 2**24 + 3, 2**62 + 1]), "float32", {})
READ["mapped twice"] = (np.array([1.0, 2.0, 300.0]), "uint8", {"scalar_map": {"decode": [[300, 4], [1.0, 9], [300, 7]]}})
READ["too large"] = (np.array([1e9]), "int16", {})
READ["infinite"] = (np.array([np.inf]), "int16", {"out_of_range": "clamp"})
READ["not a number"] = (np.array([np.nan]), "int16", {"out_of_range": "wrap"})
READ["beyond float32"] = (np.array([1e300]), "float32", {})


def text(values: bytes) -> str:
    return base64.b64encode(values).decode()


def objects(store: dict) -> dict:
    return {key: text(value.to_bytes()) for key, value in store.items()}


arrays = {}
for name, (values, filters, options) in CASES.items():
    store: dict = {}
    array = zarr.create_array(
        store,
        shape=values.shape,
        dtype=values.dtype,
        filters=filters,
        **{"chunks": values.shape, "compressors": None, **options},
    )
    array[...] = values
    arrays[name] = {"objects": objects(store), "decoded": text(array[...].astype(values.dtype).tobytes())}
for name, (values, dtype, configuration) in READ.items():
    store = {}
    array = zarr.create_array(store, shape=values.shape, dtype=values.dtype, compressors=None)
    array[...] = values
    document = json.loads(store["zarr.json"].to_bytes())
    codec = {"name": "cast_value", "configuration": {"data_type": document["data_type"], **configuration}}
    document |= {"data_type": dtype, "fill_value": 0, "codecs": [codec, *document["codecs"]]}
    store["zarr.json"] = type(store["zarr.json"]).from_bytes(json.dumps(document).encode())
    arrays[name] = {"objects": objects(store), "decoded": None}
    try:
        opened = zarr.open_array(store)
    except ValueError:
        arrays[name]["refused"] = "document"
        continue
    try:
        arrays[name]["decoded"] = text(opened[...].tobytes())
    except ValueError:
        arrays[name]["refused"] = "chunk"
json.dump({"zarr": zarr.__version__, "numpy": np.__version__, "arrays": arrays}, sys.stdout, indent=1)
print()
