#!/usr/bin/env python3
"""A reference reader of the archives that FORMAT.md describes: Bloscpack files, arrays of superchunks, carrays and tables.

It was written from FORMAT.md, needs numpy and one Blosc decoder (python-blosc, numcodecs or blosc2), and aims to be
read rather than to be fast: every file is read whole. Rule ids in brackets are those of FORMAT.md.

    python blpk.py PATH              prints dialect, dtype, shape and the SHA-256 of the values, as JSON
    python blpk.py PATH --npy OUT    also writes the values as a .npy file (arrays only)

As a module: `open_archive(path)` returns an `Archive`; `archive.values()` is a numpy array, or bytes.
"""

import ast
import ctypes
import hashlib
import importlib
import json
import os
import re
import struct
import sys
import zlib

import numpy as np

HASHES = {3: "md5", 4: "sha1", 5: "sha224", 6: "sha256", 7: "sha384", 8: "sha512"}
CHECKSUMS = ("None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
EXPANSION = {0: 256, 1: 256, 2: 32, 3: 1032, 4: 32768}  # [FB-04]


class FormatError(Exception):
    """What FORMAT.md calls an error: `code` is one of its error codes."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


def blosc_decompress(chunk, nbytes):
    """Decodes one Blosc1 chunk: with the C library that BLOSC_LIBRARY names, else with a package that is installed."""
    if "BLOSC_LIBRARY" in os.environ:
        out = ctypes.create_string_buffer(nbytes)
        library = ctypes.CDLL(os.environ["BLOSC_LIBRARY"])
        size = ctypes.c_size_t(nbytes)
        decoded = library.blosc_decompress_ctx(bytes(chunk), out, size, 1)
        return out.raw[: max(0, decoded)]
    for name in ("blosc", "numcodecs.blosc", "blosc2"):
        try:
            package = importlib.import_module(name)
        except ImportError:
            continue
        return bytes(package.decompress(bytes(chunk)))
    raise FormatError("UNSUPPORTED", "no Blosc decoder: install blosc, numcodecs or blosc2, or set BLOSC_LIBRARY")


# ---------------------------------------------------------------------------------------------- chunks and digests


def digest_of(number, data):
    """The stored form of a digest [FC-03]."""
    if number == 0:
        return b""
    if number == 1:
        return struct.pack("<I", zlib.adler32(data) & 0xFFFFFFFF)
    if number == 2:
        return struct.pack("<I", zlib.crc32(data) & 0xFFFFFFFF)
    return hashlib.new(HASHES[number], data).digest()


def digest_length(number):
    return len(digest_of(number, b""))


def chunk_header(data, at, where):
    """nbytes and ctbytes of the Blosc chunk at a byte, checked [FB-01 … FB-06]."""
    if at + 16 > len(data):
        raise FormatError("TRUNCATED", f"{where}: the file ends inside the header of the chunk at byte {at}")
    version, versionlz, flags, typesize, nbytes, blocksize, ctbytes = struct.unpack_from("<BBBBIII", data, at)
    stored = bool(flags & 2)
    if version != 2 or (versionlz != 1 and not stored) or flags & 8 or flags >> 5 > 4:
        raise FormatError("BAD_FIELD", f"{where}: what is at byte {at} is not a Blosc1 chunk")  # [FB-02]
    if ctbytes < 16:
        raise FormatError("BAD_FIELD", f"{where}: ctbytes of the chunk at byte {at} is {ctbytes}")
    if at + ctbytes > len(data):
        raise FormatError("TRUNCATED", f"{where}: the file ends inside the chunk at byte {at}")
    if typesize == 0 or (nbytes > 0 and not 1 <= blocksize <= nbytes):
        raise FormatError("BAD_FIELD", f"{where}: typesize or blocksize of the chunk at byte {at}")
    if stored and nbytes + 16 != ctbytes:
        raise FormatError("BAD_FIELD", f"{where}: the stored chunk at byte {at} has {ctbytes} bytes for {nbytes}")
    if not stored and nbytes > ctbytes * EXPANSION[flags >> 5]:
        raise FormatError("BAD_FIELD", f"{where}: {ctbytes} bytes cannot stand for {nbytes}")
    return nbytes, ctbytes


def decode_chunk(data, at, checksum, nbytes, where):
    """Decodes the chunk at a byte. Its digest is compared first [FC-05], its size with what the archive says [FS-01]."""
    found, ctbytes = chunk_header(data, at, where)
    if nbytes is not None and found != nbytes:
        raise FormatError("BAD_FIELD", f"{where}: the chunk at byte {at} holds {found} bytes, not {nbytes}")
    end = at + ctbytes
    stored = bytes(data[end : end + digest_length(checksum)])
    if len(stored) < digest_length(checksum):
        raise FormatError("TRUNCATED", f"{where}: the file ends inside the digest at byte {end}")
    if digest_of(checksum, bytes(data[at:end])) != stored:
        raise FormatError("CHECKSUM_MISMATCH", f"{where}: the chunk at byte {at}")
    if found == 0:
        return b""
    try:
        decoded = blosc_decompress(data[at:end], found)
    except Exception as error:
        if isinstance(error, FormatError):
            raise
        code = "UNSUPPORTED" if data[at + 2] >> 5 == 2 else "BAD_CHUNK"  # [FB-09]; many decoders are built without snappy
        raise FormatError(code, f"{where}: the chunk at byte {at} does not decode: {error}") from error
    if len(decoded) != found:
        raise FormatError("BAD_CHUNK", f"{where}: the chunk at byte {at} decodes to {len(decoded)} bytes")
    return decoded


# ---------------------------------------------------------------------------------------------------- blpk files


class File:
    """One `blpk` file or superchunk: sections 1 to 5."""

    def __init__(self, data, where):
        self.data, self.where = data, where
        self.metadata, self.metadata_kind = None, None
        if len(data) < 5:
            raise FormatError("TRUNCATED", f"{where}: {len(data)} bytes")
        if data[:4] != b"blpk":
            raise FormatError("BAD_MAGIC", f"{where}: starts with {bytes(data[:4])!r}")  # [F1-01]
        self.version = data[4]
        if self.version == 1:
            self._header_1()
        elif self.version in (2, 3, 4):
            self._header_2()
        else:
            raise FormatError("UNSUPPORTED", f"{where}: version {self.version}")  # [F1-02]

    def _header_1(self):
        if len(self.data) < 16:
            raise FormatError("TRUNCATED", f"{self.where}: the file ends inside its header")
        if any(self.data[5:8]):
            raise FormatError("BAD_FIELD", f"{self.where}: reserved bytes 5 to 7")  # [F1.1-03]
        (self.nchunks,) = struct.unpack_from("<q", self.data, 8)
        self.checksum, self.chunk_size, self.last_chunk = 0, -1, -1
        self.spare, self.has_offsets, self.at = 0, False, 16
        self._check_counts()

    def _header_2(self):
        if len(self.data) < 32:
            raise FormatError("TRUNCATED", f"{self.where}: the file ends inside its header")
        options, self.checksum, _, self.chunk_size, self.last_chunk, self.nchunks, last = struct.unpack_from(
            "<BBBiiqq", self.data, 5
        )
        if options & ~(1 if self.version == 2 else 3):
            raise FormatError("BAD_FIELD", f"{self.where}: options {options}")  # [F1.2-02]
        if self.checksum > 8:
            raise FormatError("BAD_FIELD", f"{self.where}: checksum {self.checksum}")  # [FC-01]
        if self.version == 2 and last != 0:
            raise FormatError("BAD_FIELD", f"{self.where}: bytes 24 to 31")  # [F1.2-05]
        self.has_offsets = bool(options & 1)
        if self.version == 4 and not self.has_offsets:
            raise FormatError("BAD_FIELD", f"{self.where}: version 4 without offsets")  # [F1.4-02]
        self.at, self.spare = 32, last if self.has_offsets else 0
        if options & 2:
            self._metadata(last)
        self._check_counts()

    def _check_counts(self):
        for value in (self.nchunks, self.chunk_size, self.last_chunk):
            if value < -1:
                raise FormatError("BAD_FIELD", f"{self.where}: {value} in the header")  # [F1.1-02] [F1.2-03]
        if self.spare < 0:
            raise FormatError("BAD_FIELD", f"{self.where}: max-app-chunks {self.spare}")

    def _metadata(self, last):
        """Section 3: Bloscpack's section, or the BLZ document's raw JSON [FM-01]."""
        data, at = self.data, 32
        if data[at : at + 8] != b"JSON\0\0\0\0":
            self.metadata_kind, self.spare, self.at = "raw", 0, at + last  # [FM.2-01] [FM.2-02]
            if last < 0 or self.at > len(data):
                raise FormatError("TRUNCATED", f"{self.where}: the metadata section")
            self.metadata = json.loads(bytes(data[at : self.at]))
            return
        options, checksum, codec, _, size, room, stored = struct.unpack_from("<BBBBIII", data, at + 8)
        if options or checksum > 8 or codec > 1 or stored > room or (codec == 0 and size != stored):
            raise FormatError("BAD_FIELD", f"{self.where}: the metadata header")  # [FM.1-02 … FM.1-06]
        text = bytes(data[at + 32 : at + 32 + stored])
        self.at = at + 32 + room + digest_length(checksum)  # [FM.1-01]
        if self.at > len(data):
            raise FormatError("TRUNCATED", f"{self.where}: the metadata section")
        if digest_of(checksum, text) != bytes(data[at + 32 + room : self.at]):
            raise FormatError("CHECKSUM_MISMATCH", f"{self.where}: the metadata section")
        if codec == 1:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(text, size + 1)  # [FM.1-07]
        if len(text) != size:
            raise FormatError("BAD_FIELD", f"{self.where}: the metadata have {len(text)} bytes, not {size}")
        self.metadata_kind, self.metadata = "bloscpack", json.loads(text)

    def chunk_offsets(self):
        """Where the chunks are: the offsets alone say it, where there are any [FO-06]; else a walk."""
        if not self.has_offsets:
            return self._walk()
        if self.nchunks < 0:
            raise FormatError("BAD_FIELD", f"{self.where}: offsets, and nchunks unknown")  # [FO-07]
        end = self.at + 8 * (self.nchunks + self.spare)
        if end > len(self.data):
            raise FormatError("TRUNCATED", f"{self.where}: the offsets table")
        offsets = list(struct.unpack_from(f"<{self.nchunks}q", self.data, self.at))
        for index, offset in enumerate(offsets):
            if offset == -1:
                raise FormatError("INCOMPLETE", f"{self.where}: chunk {index} was never written")  # [FO-05]
            if offset < end:
                raise FormatError("BAD_FIELD", f"{self.where}: offset {index} is {offset}")  # [FO-02]
        return offsets

    def _walk(self):
        """Chunk, digest, reserve, chunk, … [FW-01 … FW-03]."""
        offsets, at, data = [], self.at, self.data
        while self.nchunks < 0 or len(offsets) < self.nchunks:
            while at < len(data) and data[at] == 0:
                at += 1
            if at >= len(data):
                if self.nchunks < 0:
                    break
                raise FormatError("TRUNCATED", f"{self.where}: {len(offsets)} of {self.nchunks} chunks")
            offsets.append(at)
            at += chunk_header(data, at, self.where)[1] + digest_length(self.checksum)
        return offsets

    def chunks(self, sizes=None):
        """The decoded chunks. `sizes` gives what an array's metadata ask of each; without it the header's [FS-01]."""
        offsets = self.chunk_offsets()
        for index, at in enumerate(offsets):
            if sizes is not None:
                size = sizes(index)
            else:
                size = self.last_chunk if index == len(offsets) - 1 else self.chunk_size
                size = None if size < 0 else size  # [FS-02]
            yield decode_chunk(self.data, at, self.checksum, size, self.where)


def apply_journal(writes, data):
    for offset, new in writes:
        if offset > len(data):
            data.extend(bytes(offset - len(data)))
        data[offset : offset + len(new)] = new


def parse_journal(data, where):
    """Section 1.5: [(superchunk, column, offset, bytes)], where the first two are 0 beside a single file."""
    if data[:8] != b"blpkredo":
        raise FormatError("BAD_MAGIC", f"{where}: not a journal")
    if len(data) < 48 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise FormatError("CHECKSUM_MISMATCH", f"{where}: the journal's digest")  # [FR-01]
    version, count = struct.unpack_from("<II", data, 8)
    at, writes = 16, []
    for _ in range(count):
        superchunk = column = 0
        if version == 2:  # [FR-04]
            superchunk, column = struct.unpack_from("<qq", data, at)
            at += 16
        offset, length = struct.unpack_from("<qq", data, at)
        at += 16
        writes.append((superchunk, column, offset, data[at : at + length]))
        at += length
    if at != len(data) - 32:
        raise FormatError("BAD_FIELD", f"{where}: the writes do not fill the journal")
    return writes


def read_file(path):
    """The bytes of a file as a reader must see them: with the writes of its journal, where that counts [FR-03]."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    journal = path + ".journal"
    if len(data) > 4 and data[:4] == b"blpk" and data[4] == 4 and os.path.isfile(journal):
        with open(journal, "rb") as file:
            apply_journal([write[2:] for write in parse_journal(file.read(), journal)], data)
        data[4] = 3
    return data


# ----------------------------------------------------------------------------------------------------- data types


def parse_dtype(text):
    """Section 11: names, type strings, Python's repr of either, and lists or dicts of fields."""
    if isinstance(text, str):
        text = text.strip()
        if text.startswith("dtype(") and text.endswith(")"):
            text = text[6:-1]
        if text[:1] in "'\"[({":
            text = ast.literal_eval(text)  # a literal; never evaluated [FD.3-02]
            return parse_dtype(text)
        if text in ("object", "|O", "|O8", "|O4", "O"):
            raise FormatError("UNSUPPORTED", "Python objects are pickles, and never read")  # [FD-05]
        return np.dtype(re.sub(r"^\|a", "|S", text))
    if isinstance(text, (list, tuple)):
        return np.dtype([parse_field(field) for field in text])
    if isinstance(text, dict):
        return np.dtype({**text, "formats": [parse_dtype(one) for one in text["formats"]]})
    raise FormatError("UNSUPPORTED", f"dtype {text!r}")


def parse_field(field):
    name, kind, *shape = field
    name = name[1] if isinstance(name, (list, tuple)) else name  # [FD-01]
    return (str(name), parse_dtype(kind), *[tuple(one) if isinstance(one, list) else one for one in shape])


def is_raw(dtype):
    return dtype.base.kind == "V" and dtype.base.names is None


def is_nested(dtype_text):
    return isinstance(dtype_text, list) or (isinstance(dtype_text, str) and dtype_text.lstrip()[:1] in "[{(")


# ------------------------------------------------------------------------------------------------------- archives


class Archive:
    """`kind` is "bytes", "array" or "table". Tables and columns in folders have `columns`, by name."""

    def __init__(self, dialect, kind, dtype=None, shape=None, order="C", attrs=None, load=None, columns=None):
        self.dialect, self.kind, self.dtype, self.shape, self.order = dialect, kind, dtype, shape, order
        self.attrs, self._load, self.columns = attrs or {}, load, columns or {}

    def stored_bytes(self):
        """All decoded bytes, in stored byte and memory order."""
        return b"".join(self._load())

    def values(self):
        if self.kind == "bytes":
            return self.stored_bytes()
        if self.kind == "table":
            return {name: column.values()[: self.shape[0]] for name, column in self.columns.items()}
        if self.columns:  # a nested dtype whose fields are folders [FZ-04]
            out = np.zeros(self.shape, self.dtype)
            for name, column in self.columns.items():
                out[name] = column.values()
            return out
        data = self.stored_bytes()
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        if len(data) != size:
            raise FormatError("BAD_FIELD", f"{len(data)} bytes for shape {self.shape} of {self.dtype}")
        base = self.dtype.base if self.dtype.subdtype else self.dtype
        if size == 0:
            return np.ndarray(self.shape, base)  # np.empty gives items of zero bytes one byte
        return np.frombuffer(data, base).reshape(self.shape, order=self.order)  # [FM.3-02]


def read_json(path):
    with open(path, "rb") as file:
        value = json.loads(file.read().decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise FormatError("BAD_FIELD", f"{path}: not a JSON object")
    return value


def maybe_json(path):
    return read_json(path) if os.path.isfile(path) else None


def part(folder, name):
    """The path of a part whose name an archive stores [FN-03]."""
    if name in ("", ".", "..") or re.search(r"[/\\\0]|^[A-Za-z]:", name):
        raise FormatError("UNSAFE_PATH", f"{folder}: the name {name!r}")
    return os.path.join(folder, name)


def open_archive(path):
    """Tells the dialect by content [F1-04] and opens the archive."""
    if os.path.isfile(path):
        return open_file(path)
    if not os.path.isdir(path):
        raise FormatError("NOT_FOUND", path)
    if os.path.isfile(os.path.join(path, "meta", "sizes")):
        return open_folder(path)
    if os.path.isfile(os.path.join(path, "__rootdirs__")):
        return open_table(path)
    raise FormatError("UNSUPPORTED", f"{path}: not an archive")


def open_file(path):
    file = File(read_file(path), path)
    meta = file.metadata
    dialect = f"bloscpack-{min(file.version, 3)}"
    if isinstance(meta, dict) and meta.get("container") == "numpy":  # [FM.3-01]
        attrs = {k: v for k, v in meta.items() if k not in ("container", "dtype", "shape", "order")}
        dtype, shape = parse_dtype(meta["dtype"]), tuple(meta["shape"])
        return Archive(dialect, "array", dtype, shape, meta.get("order", "C"), attrs, file.chunks)
    return Archive(dialect, "bytes", attrs=meta if isinstance(meta, dict) else {}, load=file.chunks)


def open_folder(path):
    """An array that is a folder: which of the two layouts it has is told by its files [FA-01]."""
    sizes = read_json(os.path.join(path, "meta", "sizes"))
    storage = read_json(os.path.join(path, "meta", "storage"))
    data = os.path.join(path, "data")
    names = set(os.listdir(data)) if os.path.isdir(data) else set()
    is_blz = "superchunk" in storage or "layout" in sizes or "__1__.bin" in names
    is_blz = is_blz or any(os.path.isdir(os.path.join(data, name)) for name in names)
    is_carray = "__0.blp" in names or "bparams" in storage or "quantize" in storage.get("cparams", {})
    if is_carray and not is_blz or not is_blz and os.path.isfile(os.path.join(path, "__attrs__")):
        return open_carray(path, sizes, storage)
    return open_superchunks(path, sizes, storage)


def row_bytes(dtype, shape):
    return dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))


def chunk_sizes(dtype, shape, chunklen):
    """Uncompressed bytes of chunk k of an array [FS-01] [FA-03]."""
    row, rows = row_bytes(dtype, shape), shape[0]
    return lambda index: min(chunklen, rows - index * chunklen) * row


def count_chunks(dtype, shape, chunklen):
    return -(-shape[0] // chunklen) if row_bytes(dtype, shape) else 0  # rows of zero bytes need no chunk


def open_carray(path, sizes, storage):
    dtype, shape, chunklen = parse_dtype(storage["dtype"]), tuple(sizes["shape"]), storage["chunklen"]
    size_of = chunk_sizes(dtype, shape, chunklen)

    def load():
        count = count_chunks(dtype, shape, chunklen)  # files beyond are left over [FA-04]
        for index in range(count):
            name = os.path.join(path, "data", f"__{index}.blp")
            if not os.path.isfile(name):
                raise FormatError("INCOMPLETE", f"{name} is missing")
            file = File(read_file(name), name)
            if file.version != 1 or file.nchunks != 1:
                raise FormatError("BAD_FIELD", f"{name}: not a chunk file of a carray")  # [FA-02]
            decoded = decode_chunk(file.data, 16, 0, None, name)
            full = chunklen * row_bytes(dtype, shape)
            if len(decoded) != size_of(index) and not (index == count - 1 and size_of(index) < len(decoded) <= full):
                raise FormatError("BAD_FIELD", f"{name}: {len(decoded)} bytes")
            yield decoded[: size_of(index)]  # the last chunk may hold more rows than count [FA-10]

    attrs = maybe_json(os.path.join(path, "__attrs__"))
    return Archive("carray", "array", dtype, shape, "C", attrs, load)


def open_table(path):
    rootdirs = read_json(os.path.join(path, "__rootdirs__"))
    columns = {}
    for name in rootdirs["names"]:
        folder = rootdirs.get("dirs", {}).get(name, name)
        if "/" in folder and folder.rstrip("/").endswith("/" + name):
            folder = name  # a path of former times [FT-01]
        columns[name] = open_folder(part(path, folder))
    rows = min((column.shape[0] for column in columns.values()), default=0)  # [FT-03]
    return Archive("ctable", "table", None, (rows,), "C", maybe_json(os.path.join(path, "__attrs__")), None, columns)


def open_superchunks(path, sizes, storage):
    """Section 7: `sizes` may hold a layout, which then alone tells the superchunks [FG-01]."""
    layout = sizes.get("layout")
    if layout is not None and "storage" in layout:
        storage = layout["storage"]  # [FG-07]
    declared = storage.get("superchunk", {})
    unknown = set(declared.get("readFeatures", [])) - {"layout"}
    if declared.get("version", 1) != 1 or unknown:
        raise FormatError("UNSUPPORTED", f"{path}: needs {sorted(unknown) or declared['version']}")  # [FZ-09]
    dtype, shape, chunklen = parse_dtype(storage["dtype"]), tuple(sizes["shape"]), storage["chunklen"]
    attrs = maybe_json(os.path.join(path, "meta", "attributes"))
    data = os.path.join(path, "data")
    in_folders = declared.get("columns", False) or (
        not declared and dtype.names is not None and os.path.isdir(part(data, dtype.names[0]))
    )
    writes = journal_of(path, layout)

    def column(folder, item, place):
        mine = [(number, offset, new) for number, at, offset, new in writes if at == place]
        return lambda: superchunk_bytes(folder, item, shape, chunklen, layout, mine)

    if not in_folders:
        return Archive("blz-superchunk", "array", dtype, shape, "C", attrs, column(data, dtype, 0))

    def fields_of(folder, struct, outer, attrs):
        columns = {}
        # numpy names unnamed fields by their position; raw bytes among them are padding, which has no folder [FD.4-04]
        names = [
            name
            for place, name in enumerate(struct.names)
            if name != f"f{place}" or not is_raw(struct[name]) or os.path.isdir(part(folder, name))
        ]
        for place, name in enumerate(names):
            item, own = struct.fields[name][0], part(folder, name)
            full = (*outer, *item.shape)
            if not declared and item.base.names and not os.path.exists(os.path.join(own, "__1__.bin")):
                columns[name] = fields_of(own, item.base, full, {})  # folders in folders [FZ-04]
            else:
                load = column(own, np.dtype((item.base, full[len(shape):])), place)
                columns[name] = Archive("blz-superchunk", "array", item.base, full, "C", {}, load)
        return Archive("blz-superchunk", "array", struct, outer, "C", attrs, None, columns)

    return fields_of(data, dtype, shape, attrs)


def journal_of(path, layout):
    """The writes of an array's journal, as if they were done [FG-12]."""
    if layout is None or "journal" not in layout:
        return []
    name = os.path.join(path, "meta", f"journal-{layout['journal'][:16]}")
    if not os.path.isfile(name):
        raise FormatError("INCOMPLETE", f"{name} is missing")
    with open(name, "rb") as file:
        data = file.read()
    if data[-32:].hex() != layout["journal"]:
        raise FormatError("CHECKSUM_MISMATCH", name)
    return parse_journal(data, name)


def superchunk_bytes(folder, dtype, shape, chunklen, layout, writes):
    """The chunks of an array, or of one column, in order."""
    size_of, total = chunk_sizes(dtype, shape, chunklen), count_chunks(dtype, shape, chunklen)
    opened = {}

    def superchunk(number):
        if number not in opened:
            name = os.path.join(folder, f"__{number}__.bin")
            if not os.path.isfile(name):
                raise FormatError("INCOMPLETE", f"{name} is missing")  # [FZ-07]
            data = read_file(name)
            apply_journal([write[1:] for write in writes if write[0] == number], data)
            file = File(data, name)
            if file.version not in (3, 4):
                raise FormatError("BAD_FIELD", f"{name}: version {file.version}")  # [FZ-01]
            opened.clear()
            opened[number] = (file, file.chunk_offsets())
        return opened[number]

    def decode(number, place, index):
        file, offsets = superchunk(number)
        if place >= len(offsets):
            raise FormatError("BAD_FIELD", f"{file.where}: has {len(offsets)} chunks")
        return decode_chunk(file.data, offsets[place], file.checksum, size_of(index), file.where)

    if layout is None:
        index, number = 0, 1
        while index < total:  # superchunks follow one another by number [FZ-06]
            count = len(superchunk(number)[1])
            if not 0 < count <= total - index:
                raise FormatError("BAD_FIELD", f"{folder}: superchunk {number} holds {count} chunks")  # [FZ-06] [FZ-08]
            for place in range(count):
                yield decode(number, place, index + place)
            index, number = index + count, number + 1
        return
    patched = {}
    for number, chunks in layout.get("patches", []):
        for place, index in enumerate(chunks):
            if index >= 0:
                patched[index] = (number, place)  # [FG-04]
    index = 0
    for first, count, chunks in layout["superchunks"]:
        for number in range(first, first + count):
            for place in range(chunks):
                yield decode(*patched.get(index, (number, place)), index)
                index += 1
    if index != total:
        raise FormatError("BAD_FIELD", f"{folder}: the layout counts {index} chunks, not {total}")  # [FG-02]


# -------------------------------------------------------------------------------------------------------- command


def sha256(values):
    data = values if isinstance(values, bytes) else np.ascontiguousarray(values).tobytes()
    return hashlib.sha256(data).hexdigest()


def describe(path):
    archive = open_archive(path)
    facts = {"path": path, "dialect": archive.dialect, "kind": archive.kind, "attrs": archive.attrs}
    if archive.kind == "table":
        values = archive.values()
        facts["shape"] = list(archive.shape)
        facts["columns"] = {
            name: {"dtype": value.dtype.str, "shape": list(value.shape), "sha256": sha256(value)}
            for name, value in values.items()
        }
        return facts, None
    values = archive.values()
    if archive.kind == "array":
        facts.update(dtype=str(archive.dtype), shape=list(archive.shape), order=archive.order)
    facts["sha256"] = sha256(values)
    return facts, values


def main(arguments):
    out = None
    if "--npy" in arguments:
        at = arguments.index("--npy")
        out = arguments[at + 1]
        arguments = arguments[:at] + arguments[at + 2 :]
    if not arguments:
        print(__doc__)
        return 2
    status = 0
    for path in arguments:
        try:
            facts, values = describe(path)
            if out is not None and isinstance(values, np.ndarray):
                np.save(out, values, allow_pickle=False)
        except FormatError as error:
            facts, status = {"path": path, "error": error.code, "message": str(error)}, 1
        print(json.dumps(facts))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
