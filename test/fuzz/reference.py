"""Decodes chunks with libblosc: (uint32 length, bytes)* on stdin gives (int32 nbytes or -1, 16 bytes of SHA-256)* on stdout."""
import hashlib
import struct
import sys

import blosc

blosc.set_nthreads(1)
data = sys.stdin.buffer.read()
out = sys.stdout.buffer
at = 0
while at < len(data):
    (length,) = struct.unpack_from("<I", data, at)
    chunk = data[at + 4 : at + 4 + length]
    at += 4 + length
    try:
        decoded = blosc.decompress(chunk)
    except Exception:
        out.write(struct.pack("<i16x", -1))
    else:
        out.write(struct.pack("<i", len(decoded)) + hashlib.sha256(decoded).digest()[:16])
    # What is written is known even if the next chunk crashes the library.
    out.flush()
