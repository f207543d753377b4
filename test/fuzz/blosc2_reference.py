"""What python-blosc2 makes of chunks and frames: (uint8 kind, uint32 length, bytes)* on stdin, kind 0 a chunk and 1 a frame, gives
(int32 nbytes or -1, 16 bytes of SHA-256)* on stdout."""
import hashlib
import struct
import sys

import blosc2

blosc2.set_nthreads(1)
data = sys.stdin.buffer.read()
out = sys.stdout.buffer
at = 0
while at < len(data):
    kind, length = struct.unpack_from("<BI", data, at)
    image = data[at + 5 : at + 5 + length]
    at += 5 + length
    try:
        if kind == 0:
            decoded = blosc2.decompress2(image, nthreads=1)
        else:
            decoded = blosc2.ndarray_from_cframe(image)[()].tobytes()
    except Exception:
        out.write(struct.pack("<i16x", -1))
    else:
        out.write(struct.pack("<i", len(decoded)) + hashlib.sha256(decoded).digest()[:16])
    # What is written is known even if the next one crashes the library.
    out.flush()
