"""Compares what meshwork makes of safetensors files with Python's package safetensors, which is another implementation.

    safetensors_oracle.py MESHWORK WORK

The package writes a file of all element types that meshwork reads; meshwork makes a checkpoint of it, cuts that anew, and
exports it; the package opens the export. Exit code 1 if a tensor is not what NumPy makes of the written one.
"""

import pathlib
import subprocess
import sys

import numpy as np
import safetensors

# What meshwork reads: the name in Python, in the file, and the name of what it is read as.
TYPES = {
    "float64": ("F64", "F64"), "float32": ("F32", "F32"), "float16": ("F16", "F16"), "bfloat16": ("BF16", "BF16"),
    "int64": ("I64", "I64"), "int32": ("I32", "I32"), "int16": ("I16", "I32"), "int8": ("I8", "I8"),
    "uint32": ("U32", "I64"), "uint16": ("U16", "I32"), "uint8": ("U8", "U8"), "bool": ("BOOL", "BOOL"),
}
NUMPY = {"F64": np.float64, "F32": np.float32, "BF16": np.uint16, "I64": np.int64, "I32": np.int32, "BOOL": np.uint8,
         "F16": np.float16, "I8": np.int8, "U8": np.uint8}
SHAPES = [(), (0, 3), (7,), (31, 5), (400, 300)]  # the last one is cut into pieces


def bfloat16_of(x):
    """The bits of float32 numbers, rounded to the nearest bfloat16, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), (bits >> 16 | 0x40).astype(np.uint16), rounded)


def float32_of(bits):
    """The numbers whose bfloat16 bits are given."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def draw(rng, name, shape):
    """Any bits at all, or any number: NaN, infinities and subnormal numbers among them."""
    if name == "bool":
        return rng.integers(0, 2, shape).astype(np.uint8)
    kind = np.dtype(np.uint16 if name == "bfloat16" else name)
    size = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(rng.bytes(size * kind.itemsize), kind).reshape(shape)


def save(path, tensors):
    """Writes {name: (Python's dtype, bits)}; the package has taken descriptions in two forms."""
    arrays = {name: np.ascontiguousarray(array).reshape(array.shape) for name, (_, array) in tensors.items()}
    if hasattr(safetensors, "TensorSpec"):
        specs = {name: safetensors.TensorSpec(dtype=dtype, shape=arrays[name].shape, data_ptr=arrays[name].ctypes.data,
                                              data_len=arrays[name].nbytes) for name, (dtype, _) in tensors.items()}
    else:
        specs = {name: {"dtype": dtype, "shape": arrays[name].shape, "data": arrays[name].tobytes()}
                 for name, (dtype, _) in tensors.items()}
    safetensors.serialize_file(specs, str(path), {"written by": "the package"})


def load(path):
    """{name: (dtype in the file, array)}."""
    loaded = {}
    for name, entry in safetensors.deserialize(path.read_bytes()):
        array = np.frombuffer(bytes(entry["data"]), NUMPY[entry["dtype"]]).reshape(entry["shape"])
        loaded[name] = (entry["dtype"], array)
    # The way of most users, who get arrays at once. NumPy has no bfloat16.
    with safetensors.safe_open(str(path), framework="np") as file:
        assert set(file.keys()) == set(loaded), f"{path}: other names"
        for name, (dtype, array) in loaded.items():
            if dtype != "BF16":
                assert file.get_tensor(name).tobytes() == array.tobytes(), f"{path}: {name} differs when it is opened"
    return loaded


def expected_of(dtype, array, asked=None):
    """What meshwork shall make of an array that was written as `dtype`: (dtype in the file, array)."""
    result = TYPES[dtype][1]
    if result in ("F64", "F32", "BF16", "F16"):
        with np.errstate(all="ignore"):
            numbers = float32_of(array) if dtype == "bfloat16" else array
            if asked == "f64":
                return "F64", numbers.astype(np.float64)
            if asked == "f32":
                return "F32", numbers.astype(np.float32)
            if asked == "bf16" and dtype != "float64":  # NumPy would round twice
                return "BF16", array if dtype == "bfloat16" else bfloat16_of(numbers.astype(np.float32))
    elif result in ("I32", "I8", "U8") and asked == "i64":
        result = "I64"
    return result, array.astype(NUMPY[result])


def is_same(a, b):
    """Bit by bit, but for which NaN it is, and for what a quiet one says."""
    if a.dtype.kind == "f":
        return np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(
            np.where(np.isnan(a), 0, a).view(f"u{a.itemsize}"), np.where(np.isnan(b), 0, b).view(f"u{b.itemsize}"))
    return np.array_equal(a, b)


def same_bfloat16(a, b):
    x, y = float32_of(a), float32_of(b)
    return is_same(x, y)


def compare(title, loaded, written, asked=None):
    wrong = 0
    if set(loaded) != set(written):
        print(f"{title}: the names are {sorted(loaded)}")
        return 1
    for name, (dtype, array) in written.items():
        if asked == "bf16" and dtype == "float64":
            continue
        kind, expected = expected_of(dtype, array, asked)
        same = same_bfloat16 if kind == "BF16" else is_same
        if loaded[name][0] == kind and loaded[name][1].shape == expected.shape and same(loaded[name][1], expected):
            continue
        print(f"{title}: {name} is {loaded[name][0]}{list(loaded[name][1].shape)} and differs")
        wrong += 1
    print(f"{title}: {len(written) - wrong} of {len(written)} tensors agree")
    return wrong


def main():
    meshwork, work = sys.argv[1], pathlib.Path(sys.argv[2])
    rng = np.random.default_rng(1)
    written = {f"{name} {list(shape)}": (name, draw(rng, name, shape)) for name in TYPES for shape in SHAPES}
    save(work / "written.safetensors", written)

    def checkpoint(*arguments):
        subprocess.run([meshwork, "checkpoint", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    checkpoint("convert", work / "written.safetensors", work / "runs", "--step", 3)
    checkpoint("reshard", work / "runs", work / "cut", "--mesh", "a=4,b=2", "--shards", 2, "--layout", "* ?400, 300]={a,b}")
    checkpoint("convert", work / "cut", work / "exported.safetensors")
    with safetensors.safe_open(str(work / "exported.safetensors"), framework="np") as file:
        assert file.metadata()["step"] == "3", file.metadata()
    wrong = compare("as they are", load(work / "exported.safetensors"), written)
    for asked in ("f64", "f32", "bf16", "i64"):
        target = work / f"{asked}.safetensors"
        checkpoint("convert", work / "cut", target, "--dtype", asked)
        # What has become f32 on the way is widened from there.
        wrong += compare(f"as {asked}, on export", load(target), written, asked)
        checkpoint("convert", work / "written.safetensors", work / asked, "--dtype", asked)
        checkpoint("convert", work / asked, target, "--force")
        wrong += compare(f"as {asked}, on import", load(target), written, asked)
    sys.exit(wrong > 0)


main()
