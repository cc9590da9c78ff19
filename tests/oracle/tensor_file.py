"""Reads and writes what the oracle exchanges with meshwork: safetensors and IDX files.

Independent of meshwork's own readers on purpose, and of the safetensors package.
"""

import gzip
import json
import math
import struct
import zlib

import numpy as np

_DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "BOOL": "|b1"}
_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class FileError(Exception):
    """A file that is not what it should be; the message names it."""


def read_safetensors(path):
    """The tensors of a safetensors file: a dict name -> array, in the order of the header."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8:
        raise FileError(f"{path}: {len(data)} bytes are too few for a safetensors file")
    (header_size,) = struct.unpack("<Q", data[:8])
    if header_size > len(data) - 8:
        raise FileError(f"{path}: the header claims {header_size} bytes, the file has {len(data)}")
    try:
        header = json.loads(data[8 : 8 + header_size])
    except ValueError as error:
        raise FileError(f"{path}: the header is not JSON: {error}") from error
    body = data[8 + header_size :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise FileError(f"{path}: the header's entry of {name} is malformed")
        if entry["dtype"] not in _DTYPES:
            raise FileError(f"{path}: {name} has the dtype {entry['dtype']}; known are {', '.join(_DTYPES)}")
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        begin, end = entry["data_offsets"]
        size = math.prod(entry["shape"]) * dtype.itemsize
        if not 0 <= begin <= end <= len(body) or end - begin != size:
            raise FileError(f"{path}: {name} {entry['shape']} needs {size} bytes, has [{begin}, {end})")
        tensors[name] = np.frombuffer(body[begin:end], dtype).reshape(entry["shape"]).copy()
    return tensors


def write_safetensors(path, tensors):
    """Writes a dict name -> array."""
    names = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
    header, blobs, offset = {}, [], 0
    for name, tensor in tensors.items():
        tensor = np.asarray(tensor)
        blob = tensor.tobytes()  # row-major
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_idx(path):
    """The array of an IDX file, gzipped or not."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise FileError(f"{path}: damaged gzip stream: {error}") from error
    if len(data) < 4 or data[0] != 0 or data[1] != 0 or data[2] not in _IDX_DTYPES:
        raise FileError(f"{path}: not an IDX file")
    dtype, rank = np.dtype(_IDX_DTYPES[data[2]]), data[3]
    start = 4 + 4 * rank
    shape = struct.unpack(f">{rank}I", data[4:start]) if len(data) >= start else (0,) * rank
    if len(data) - start != math.prod(shape) * dtype.itemsize:
        raise FileError(
            f"{path}: {list(shape)} needs {math.prod(shape) * dtype.itemsize} bytes, has {len(data) - start}"
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape)
