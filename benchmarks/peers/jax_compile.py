"""Compiling a training step of an L-layer MLP or transformer for 8 devices: meshwork's Compile beside JAX.

The MLP is that of benchmarks/layered_mlp.h: layers of equal size with bias and ReLU, sparse softmax
cross-entropy, Adam (or SGD); examples sharded over the axis batch of 4, kernels over the axis model of 2, by columns
and by rows in turn. The transformer is that of benchmarks/layered_transformer.h, with Adam: sequences along batch, heads
and hidden units along model, and between them tokens along model.

Of JAX's compilation two passes do what Compile does, propagation by Shardy ("shardy-xla") and "spmd-partitioning";
their times are read from the profile that JAX writes while it compiles. "all" is tracing, lowering and compiling, to an
executable. meshwork's time is Compile without its proof: from the global program, gradients included, to that of each
device; "proof" is what Verify takes then. Of the transformer it is processor time.

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
HEAD_UNITS = 16  # of the transformer, of which a device has one sequence, one token of it and one head
BATCH, MODEL = 4, 2
LAYERS = ("4", "16", "64", "256")  # that meshwork's benchmarks have


def mlp(layers, tensor):
    """The tensors of the weights and of the inputs, and the loss of both."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    units, examples = UNITS_PER_DEVICE * MODEL, EXAMPLES_PER_DEVICE * BATCH

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

    inputs = tensor((examples, units), P("batch", None)), tensor((examples,), P("batch"), jnp.int32)
    return [layer(i) for i in range(layers)], inputs, loss_of


def transformer(layers, tensor):
    """As mlp."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    heads, units = MODEL, MODEL * HEAD_UNITS
    by_tokens = P("batch", "model", None)

    def block():
        columns, rows = tensor((units, units), P(None, "model")), tensor((units, units), P("model", None))
        norm = {"scale": tensor((units,), P()), "offset": tensor((units,), P())}
        return {
            "norm1": norm,
            "q": columns,
            "k": columns,
            "v": columns,
            "out": rows,
            "norm2": norm,
            "in": tensor((units, 4 * units), P(None, "model")),
            "down": tensor((4 * units, units), P("model", None)),
        }

    def normed(x, norm):
        centered = x - jnp.mean(x, -1, keepdims=True)
        return centered * jax.lax.rsqrt(jnp.mean(centered**2, -1, keepdims=True) + 1e-5) * norm["scale"] + norm["offset"]

    def attention(x, w):
        q, k, v = ((x @ w[name]).reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3) for name in "qkv")
        shares = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) * HEAD_UNITS**-0.5)
        return (shares @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ w["out"]

    def loss_of(params, x, target):
        placed = x_type.sharding
        for w in params:
            x = jax.lax.with_sharding_constraint(x + attention(normed(x, w["norm1"]), w), placed)
            hidden = jax.nn.gelu(normed(x, w["norm2"]) @ w["in"], approximate=False)
            x = jax.lax.with_sharding_constraint(x + hidden @ w["down"], placed)
        return jnp.mean((x - target) ** 2)

    x_type = tensor((BATCH, MODEL, units), by_tokens)
    return [block() for _ in range(layers)], (x_type, x_type), loss_of


def compile_with_jax(model, layers, optimizer):
    """Returns the milliseconds of PASSES together, and of all from tracing to the executable."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={BATCH * MODEL}"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(BATCH, MODEL), ("batch", "model"))

    def tensor(shape, spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    params, inputs, loss_of = {"mlp": mlp, "transformer": transformer}[model](layers, tensor)

    def adam(params, grads, m, v, t):
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return params, m, v, t + 1

    def step(state, *inputs):
        if optimizer == "sgd":
            loss, grads = jax.value_and_grad(loss_of)(state, *inputs)
            return loss, jax.tree.map(lambda p, g: p - 1e-3 * g, state, grads)
        loss, grads = jax.value_and_grad(loss_of)(state[0], *inputs)
        return loss, adam(state[0], grads, *state[1:])

    state = params if optimizer == "sgd" else (params, params, params, tensor((), P()))
    shardings = (NamedSharding(mesh, P()), jax.tree.map(lambda t: t.sharding, state))
    jitted = jax.jit(step, donate_argnums=0, out_shardings=shardings)
    start = time.perf_counter()
    lowered = jitted.lower(state, *inputs)
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


def compile_with_meshwork(binary, model, layers, optimizer):
    """Returns the milliseconds of Compile without the proof, and of the proof, on the same mesh."""
    program = f"compile/{optimizer}" if model == "mlp" else f"scaling/{model}"
    name = f"{program}/L:{layers}/log2_devices:3"
    command = [binary, f"--benchmark_filter={name}$", "--benchmark_format=json", "--benchmark_min_time=0.5"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (entry,) = [b for b in result["benchmarks"] if b["name"] == name]
    if model == "transformer":  # microseconds per layer
        return entry["us_compile"] * layers / 1e3, entry["us_verify"] * layers / 1e3
    return entry["ms_rest"], entry["ms_verify"]


def compile_with_jax_in_a_process(model, layers, optimizer):
    command = [sys.executable, __file__, "--one", "--model", model, "--layers", str(layers), "--optimizer", optimizer]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(
        prog="jax_compile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["mlp", "transformer"], default="mlp")
    parser.add_argument("--layers", default="4,256", help=f"numbers of layers, from {', '.join(LAYERS)}")
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam", help="of the MLP")
    parser.add_argument("--repetitions", type=int, default=5, help="of each")
    parser.add_argument("--benchmarks", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compile_with_jax(options.model, int(options.layers), options.optimizer)))
        return 0
    if options.model == "transformer" and options.optimizer != "adam":
        parser.error("--optimizer: the transformer is trained with adam")
    wrong = [layers for layers in options.layers.split(",") if layers not in LAYERS]
    if wrong:
        parser.error(f"--layers: \"{wrong[0]}\" is none of {', '.join(LAYERS)}")
    is_slow = False
    print(f"{options.model}, {options.optimizer}, medians of {options.repetitions}, ms")
    print("layers  meshwork   proof  JAX's two passes  ratio  JAX, all")
    for layers in map(int, options.layers.split(",")):
        ours, theirs = [], []
        for _ in range(options.repetitions):
            ours.append(compile_with_meshwork(options.benchmarks, options.model, layers, options.optimizer))
            theirs.append(compile_with_jax_in_a_process(options.model, layers, options.optimizer))
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
