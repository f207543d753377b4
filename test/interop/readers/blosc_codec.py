"""Decodes and encodes Blosc chunks with c-blosc: python-blosc's, or with `--library` Debian's, which has snappy."""

import ctypes
import sys

from protocol import describe_bytes, serve


class PythonBlosc:
    def __init__(self):
        import blosc

        blosc.set_nthreads(1)
        self.decode = blosc.decompress
        self.blosc = blosc

    def encode(self, data, typesize, clevel, shuffle, cname):
        return self.blosc.compress(data, typesize=typesize, clevel=clevel, shuffle=shuffle, cname=cname)


class Library:
    def __init__(self):
        self.blosc = ctypes.CDLL("libblosc.so.1")

    def decode(self, chunk):
        nbytes = int.from_bytes(chunk[4:8], "little")
        out = ctypes.create_string_buffer(max(nbytes, 1))
        size = self.blosc.blosc_decompress_ctx(chunk, out, ctypes.c_size_t(nbytes), 1)
        if size != nbytes:
            raise ValueError("blosc_decompress_ctx gave %d, not %d" % (size, nbytes))
        return out.raw[:nbytes]

    def encode(self, data, typesize, clevel, shuffle, cname):
        size = ctypes.c_size_t
        out = ctypes.create_string_buffer(len(data) + 16)
        done = self.blosc.blosc_compress_ctx(
            clevel, shuffle, size(typesize), size(len(data)), data, out, size(len(out)), cname.encode(), size(0), 1
        )
        if done <= 0:
            raise ValueError("blosc_compress_ctx gave %d" % done)
        return out.raw[:done]


codec = Library() if "--library" in sys.argv[1:] else PythonBlosc()


def read(job):
    with open(job["path"], "rb") as file:
        file.seek(job["offset"])
        data = file.read(job["length"])
    if "encode" not in job:
        return describe_bytes(codec.decode(data), None)
    settings = job["encode"]
    chunk = codec.encode(data, settings["typesize"], settings["clevel"], settings["shuffle"], settings["cname"])
    with open(job["to"], "wb") as file:
        file.write(chunk)
    return describe_bytes(data, None)


serve(read)
