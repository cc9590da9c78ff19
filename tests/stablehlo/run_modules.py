"""Runs the modules of stablehlo_samples with XLA's CPU plugin, as JAX ships it, and compares.

usage: run_modules.py DIR...
"""
import collections
import glob
import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
import jax
import ml_dtypes
import numpy as np
from jax._src.lib import xla_client as xc

TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
         "f16": np.float16, "u8": np.uint8, "i8": np.int8}
# Of the largest number of the result.
TOLERANCES = {"f32": 3e-6, "f64": 1e-13, "bf16": 1.6e-2, "f16": 2e-3}


# Of the largest number of the program, over which errors of many ops add up.
PROGRAM_TOLERANCES = {"f32": 1e-4, "f64": 1e-11, "bf16": 8e-2, "f16": 1e-2}


def numbers_as(tensor, numbers):
    """Numbers, of which those that are padding may be anything."""
    anything = "NaN" if tensor["dtype"] in TOLERANCES else 1
    plain = [float(x) if isinstance(x, str) else x for x in (anything if x is None else x for x in numbers)]
    dtype = TYPES[tensor["dtype"]]
    if np.issubdtype(dtype, np.integer):  # a double may be beyond the range by rounding
        plain = [min(max(int(x), np.iinfo(dtype).min), np.iinfo(dtype).max) for x in plain]
    return np.array(plain).astype(dtype).reshape(tensor["shape"])


def array(tensor):
    return numbers_as(tensor, tensor["numbers"])


def difference(expected, found, dtype):
    """What is wrong, or an empty text."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if dtype not in TOLERANCES:
        return "" if np.array_equal(expected, found) else f"{found.ravel()[:8]} instead of {expected.ravel()[:8]}"
    e, f = expected.astype(np.float64), found.astype(np.float64)
    special = ~np.isfinite(e)
    if not np.array_equal(np.where(special, e, 0), np.where(special, f, 0), equal_nan=True):
        return f"{f.ravel()[:8]} instead of {e.ravel()[:8]}"
    e, f = np.where(special, 0, e), np.where(special, 0, f)
    largest = max(1e-30, np.abs(e).max(initial=0))
    worst = np.abs(e - f).max(initial=0) / largest
    return "" if worst <= TOLERANCES[dtype] else f"off by {worst:.2g}: {f.ravel()[:6]} instead of {e.ravel()[:6]}"


def is_padding(tensor, numbers):
    return np.array([x is None for x in numbers]).reshape(tensor["shape"])


def run_on_one(text, case, devices):
    program = devices[0].client.compile_and_load(text, xc.DeviceList(devices[:1]), xc.CompileOptions())
    inputs = [jax.device_put(array(x), devices[0]) for x in case["inputs"]]
    results = program.execute_sharded(inputs).disassemble_into_single_device_arrays()
    found = [np.asarray(result[0]) for result in results]
    return [difference(array(x), y, x["dtype"]) for x, y in zip(case["outputs"], found)]


def blocks(tensor, devices):
    """An array of which each device holds a block of its own; a scalar is one everywhere."""
    parts = [jax.device_put(numbers_as(tensor, numbers), device) for numbers, device in zip(tensor["devices"], devices)]
    mesh = jax.sharding.Mesh(np.array(devices), "d")
    shape = tuple(tensor["shape"])
    spec = jax.sharding.PartitionSpec("d") if shape else jax.sharding.PartitionSpec()
    shape = (shape[0] * len(devices),) + shape[1:] if shape else shape
    return jax.make_array_from_single_device_arrays(shape, jax.sharding.NamedSharding(mesh, spec), parts)


def block_difference(tensor, numbers, found, scale):
    padding = is_padding(tensor, numbers)
    expected = numbers_as(tensor, numbers)
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    e, f = (np.where(padding, 0, x.astype(np.float64)) for x in (expected, found))
    if not np.isfinite(f).all():
        return f"{f.ravel()[:8]} instead of {e.ravel()[:8]}"
    worst = np.abs(e - f).max(initial=0)
    limit = PROGRAM_TOLERANCES.get(tensor["dtype"], 0) * scale
    return "" if worst <= limit else f"off by {worst / scale:.2g} of the scale: {f.ravel()[:6]} instead of {e.ravel()[:6]}"


def run_on_all(text, case, devices):
    devices = devices[: case["num_devices"]]
    options = xc.CompileOptions()
    options.num_replicas = len(devices)
    options.device_assignment = xc.DeviceAssignment.create(np.arange(len(devices)).reshape(-1, 1))
    program = devices[0].client.compile_and_load(text, xc.DeviceList(tuple(devices)), options)
    results = program.execute_sharded([blocks(x, devices) for x in case["inputs"]]).disassemble_into_single_device_arrays()
    problems = []
    for tensor, parts in zip(case["outputs"], results):
        for device, (numbers, part) in enumerate(zip(tensor["devices"], parts)):
            problem = block_difference(tensor, numbers, np.asarray(part), case["scale"])
            if problem:
                problems.append(f"device {device}: {problem}")
    return problems


def main():
    jax.config.update("jax_enable_x64", True)
    devices = tuple(jax.devices("cpu"))
    right, wrong = collections.Counter(), 0
    for path in (path for folder in sys.argv[1:] for path in sorted(glob.glob(folder + "/*.mlir"))):
        op = os.path.basename(path).split(".")[0]
        case = json.load(open(path[:-5] + ".json"))
        try:
            problems = (run_on_all if "num_devices" in case else run_on_one)(open(path).read(), case, devices)
        except Exception as error:  # whatever the plugin says
            problems = [str(error).split("\n\n")[0][:600]]
        problems = [problem for problem in problems if problem]
        if problems:
            wrong += 1
            print(f"{path}: {case['sample']}: {problems[0]}")
        else:
            right[op] += 1
    print(f"{sum(right.values())} modules of {len(right)} kinds are right, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
