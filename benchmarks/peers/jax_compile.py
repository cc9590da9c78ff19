"""Compiling a training step of an L-layer MLP for 8 devices: meshwork's Compile beside JAX.

The program is that of benchmarks/layered_mlp.h: layers of equal size with bias and ReLU, sparse softmax
cross-entropy, Adam (or SGD); examples sharded over the axis batch of 4, kernels over the axis model of 2, by columns
and by rows in turn.

Of JAX's compilation two passes do what Compile does, propagation by Shardy ("shardy-xla") and "spmd-partitioning";
their times are read from the profile that JAX writes while it compiles. "all" is tracing, lowering and compiling, to an
executable. meshwork's time is Compile without its proof: from the global program, gradients included, to that of each
device; "proof" is what Verify takes then.

The two take turns, each in a process of its own; shown are the medians and the ratio of Compile without the proof to
JAX's two passes. Exits with 1 where that is above a third.
"""

import argparse
import glob
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PASSES = ("shardy-xla", "spmd-partitioning")
EXAMPLES_PER_DEVICE, UNITS_PER_DEVICE = 16, 128
BATCH, MODEL = 4, 2


def compile_with_jax(layers, optimizer):
    """Returns the milliseconds of PASSES together, and of all from tracing to the executable."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={BATCH * MODEL}"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(BATCH, MODEL), ("batch", "model"))
    units, examples = UNITS_PER_DEVICE * MODEL, EXAMPLES_PER_DEVICE * BATCH

    def tensor(shape, spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    def layer(i):
        by_columns = i % 2 == 0
        return (
            tensor((units, units), P(None, "model") if by_columns else P("model", None)),
            tensor((units,), P("model") if by_columns else P(None)),
        )

    def loss_of(params, x, labels):
        h = x
        for i, (kernel, bias) in enumerate(params):
            h = h @ kernel + bias
            if i + 1 < layers:
                h = jax.nn.relu(h)
        picked = jnp.take_along_axis(jax.nn.log_softmax(h), labels[:, None], axis=1)
        return -jnp.mean(picked)

    def adam(params, grads, m, v, t):
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return params, m, v, t + 1

    def step(state, x, labels):
        if optimizer == "sgd":
            loss, grads = jax.value_and_grad(loss_of)(state, x, labels)
            return loss, jax.tree.map(lambda p, g: p - 1e-3 * g, state, grads)
        loss, grads = jax.value_and_grad(loss_of)(state[0], x, labels)
        return loss, adam(state[0], grads, *state[1:])

    params = [layer(i) for i in range(layers)]
    state = params if optimizer == "sgd" else (params, params, params, tensor((), P()))
    shardings = (NamedSharding(mesh, P()), jax.tree.map(lambda t: t.sharding, state))
    jitted = jax.jit(step, donate_argnums=0, out_shardings=shardings)
    start = time.perf_counter()
    lowered = jitted.lower(
        state,
        tensor((examples, units), P("batch", None)),
        tensor((examples,), P("batch"), jnp.int32),
    )
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder)
        start = time.perf_counter()
        lowered.compile()
        seconds += time.perf_counter() - start
        jax.profiler.stop_trace()
        (file,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        with gzip.open(file) as trace:
            events = json.load(trace)["traceEvents"]
    took = dict.fromkeys(PASSES, 0.0)
    for event in events:
        if event.get("ph") == "X" and event["name"] in took:
            took[event["name"]] += event["dur"] / 1e3
    missing = [name for name, ms in took.items() if ms == 0]
    if missing:
        sys.exit(f"jax_compile: JAX {jax.__version__} writes no time of {', '.join(missing)} into its profile")
    return sum(took.values()), 1e3 * seconds


def compile_with_meshwork(binary, layers, optimizer):
    """Returns the milliseconds of Compile without the proof, and of the proof, on the same mesh."""
    name = f"compile/{optimizer}/L:{layers}/log2_devices:3"
    command = [binary, f"--benchmark_filter={name}$", "--benchmark_format=json", "--benchmark_min_time=0.5"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (entry,) = [b for b in result["benchmarks"] if b["name"] == name]
    return entry["ms_rest"], entry["ms_verify"]


def compile_with_jax_in_a_process(layers, optimizer):
    command = [sys.executable, __file__, "--one", "--layers", str(layers), "--optimizer", optimizer]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(
        prog="jax_compile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", default="4,256", help="numbers of layers, from 4, 16, 64, 256")
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--repetitions", type=int, default=5, help="of each")
    parser.add_argument("--benchmarks", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compile_with_jax(int(options.layers), options.optimizer)))
        return 0
    is_slow = False
    print(f"{options.optimizer}, medians of {options.repetitions}, ms")
    print("layers  meshwork   proof  JAX's two passes  ratio  JAX, all")
    for layers in map(int, options.layers.split(",")):
        ours, theirs = [], []
        for _ in range(options.repetitions):
            ours.append(compile_with_meshwork(options.benchmarks, layers, options.optimizer))
            theirs.append(compile_with_jax_in_a_process(layers, options.optimizer))
        rest, proof = (statistics.median(column) for column in zip(*ours))
        passes, everything = (statistics.median(column) for column in zip(*theirs))
        is_slow |= 3 * rest > passes
        print(
            f"{layers:6d}  {rest:8.2f}  {proof:6.2f}  {passes:16.1f}  {rest / passes:5.3f}  {everything:8.0f}",
            flush=True,
        )
    return 1 if is_slow else 0


if __name__ == "__main__":
    sys.exit(main())
