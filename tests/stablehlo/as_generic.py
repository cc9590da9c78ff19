"""Writes the modules of stablehlo_samples in MLIR's generic form, with their arguments and results, for ReadStableHlo to read back.

usage: as_generic.py FROM TO      FROM/NAME.mlir and FROM/NAME.json become TO/NAME.mlir and TO/NAME.npz
"""
import glob
import json
import os
import sys

import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir


def array(tensor):
    """The numbers in the dtype, but those of bf16 and f16 as f32."""
    dtype = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "i8": np.int8, "f64": np.float64}.get(tensor["dtype"], np.float32)
    numbers = np.array([float(x) for x in tensor["numbers"]], np.float64)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return np.array([min(max(int(x), limits.min), limits.max) for x in numbers], dtype).reshape(tensor["shape"])
    return numbers.astype(dtype).reshape(tensor["shape"])


def main():
    source, target = sys.argv[1:3]
    os.makedirs(target, exist_ok=True)
    count = 0
    for path in sorted(glob.glob(source + "/*.mlir")):
        if os.path.basename(path).startswith("max_pool."):
            continue  # windows of a value and its place together, which are not read
        case = json.load(open(path[:-5] + ".json"))
        with mlir.make_ir_context():
            text = ir.Module.parse(open(path).read()).operation.get_asm(print_generic_op_form=True)
        name = os.path.join(target, os.path.basename(path)[:-5])
        with open(name + ".mlir", "w") as file:
            file.write(text)
        arrays = {f"a{i}": array(x) for i, x in enumerate(case["inputs"])}
        arrays.update({f"r{i}": array(x) for i, x in enumerate(case["outputs"])})
        np.savez(name + ".npz", **arrays)
        count += 1
    print(f"{count} modules in generic form")


main()
