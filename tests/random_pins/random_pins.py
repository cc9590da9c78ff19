#!/usr/bin/env python3
"""Writes random_pins.json: steps of transformer layers with random pins, and the bytes that JAX sends for each.

    python3 -m venv build/peers/jax && build/peers/jax/bin/pip install "jax[cpu]"
    build/peers/jax/bin/python tests/random_pins/random_pins.py              # goes on behind the last step of the file
    build/peers/jax/bin/python tests/random_pins/random_pins.py --check 20   # compares 20 of its steps instead

Only those who change the steps need Python; random_pins.h reads the file. An entry:

    "mesh"      "x=8", "x=2,y=4" or "x=4,y=2"
    "sizes"     sequences, tokens, units, hidden units of the MLP, layers
    "gated"     whether the MLP is silu(b·wg) * (b·wu), not silu(b·wu)
    "classes"   of the cross-entropy behind a last product; 0: the loss is the mean squared error
    "pins"      of the arguments in the order of `arguments`, "x,_,_;..."; "?,?,?" is open
    "jax"       bytes on the wire, per device and step
    "flops"     of JAX's products, per device and step

JAX compiles the step for 8 virtual CPU devices: arguments by NamedSharding, new weights as the weights, the loss whole.
Counted are the collectives of the compiled program, as meshwork counts its own (ir/program.h: WireTraffic).
"""

import argparse
import gzip
import json
import math
import os
import pathlib
import random
import re
import sys

HEADS = 8
STEPS = 500
FILE = pathlib.Path(__file__).with_suffix(".json")


# ---- Drawing.


def arguments(case):
    """Names and shapes."""
    sequences, tokens, units, hidden, layers = case["sizes"]
    inside = (sequences, tokens, units)
    target = (sequences, tokens, case["classes"] or units)
    shapes = {"x": inside, "t": target}
    for layer in range(layers):
        shapes[f"g{layer}"] = (units,)
        for name in ("wq", "wk", "wv", "wo"):
            shapes[f"{name}{layer}"] = (units, units)
        shapes[f"G{layer}"] = (units,)
        if case["gated"]:
            shapes[f"wg{layer}"] = (units, hidden)
        shapes[f"wu{layer}"] = (units, hidden)
        shapes[f"wd{layer}"] = (hidden, units)
    if case["classes"]:
        shapes["head"] = (units, case["classes"])
    return shapes


def draw(seed):
    """The step of a seed, without "jax"."""
    dice = random.Random(seed)
    mesh = dice.choice(["x=8", "x=2,y=4", "x=4,y=2"])
    units = dice.choice([64, 128, 256])
    case = {
        "seed": seed,
        "mesh": mesh,
        "sizes": [
            dice.choice([8, 16, 32]),
            dice.choice([64, 128]),
            units,
            units * dice.choice([2, 4]),
            2 if dice.random() < 0.2 else 1,
        ],
        "gated": dice.random() < 0.5,
        "classes": dice.choice([0, 0, 128, 256]),
    }
    axes = [part.split("=")[0] for part in mesh.split(",")]
    unused = dice.choice([0.1, 0.35, 0.7])
    by_batch = dice.random() < 0.4
    pins = []
    for name, shape in arguments(case).items():
        dims = [[] for _ in shape]
        for axis in axes:
            if dice.random() >= unused:
                dims[dice.randrange(len(shape))].append(axis)
        if len(shape) == 3 and by_batch:
            dims = [list(axes[:1]), *([a for a in dim if a != axes[0]] for dim in dims[1:])]
        is_open = len(shape) == 3 and dice.random() < 0.05
        written = {0: "_", 1: "%s", 2: "(%s)"}
        pins.append(",".join("?" if is_open else written[len(dim)] % ",".join(dim) if dim else "_" for dim in dims))
    case["pins"] = ";".join(pins)
    return case


# ---- JAX.


def partition(pin):
    """The entries of a PartitionSpec; None if the pin is open."""
    dims = re.findall(r"\(.*?\)|[^,]+", pin)
    if dims[0] == "?":
        return None
    return [None if dim == "_" else tuple(dim.strip("()").split(",")) for dim in dims]


def loss_of(case, w, x, t):
    import jax
    import jax.numpy as jnp

    sequences, tokens, units, _, layers = case["sizes"]

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5) * scale

    def by_heads(x):
        return x.reshape(sequences, tokens, HEADS, units // HEADS)

    for layer in range(layers):

        def of(name):
            return w[f"{name}{layer}"]

        a = norm(x, of("g"))
        q, k, v = (by_heads(a @ of(name)) for name in ("wq", "wk", "wv"))
        scores = jnp.einsum("bshd,bthd->bhst", q, k) / math.sqrt(units // HEADS)
        seen = jnp.tril(jnp.ones((tokens, tokens), bool))
        y = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)), v)
        x = x + y.reshape(sequences, tokens, units) @ of("wo")
        b = norm(x, of("G"))
        h = jax.nn.silu(b @ of("wg")) * (b @ of("wu")) if case["gated"] else jax.nn.silu(b @ of("wu"))
        x = x + h @ of("wd")
    if case["classes"]:
        return -jnp.mean(jnp.sum(t * jax.nn.log_softmax(x @ w["head"]), axis=-1))
    return jnp.mean(jnp.square(x - t))


def compiled_text(case):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sizes = dict(part.split("=") for part in case["mesh"].split(","))
    devices = np.array(jax.devices()).reshape([int(n) for n in sizes.values()])
    mesh = Mesh(devices, tuple(sizes))
    tensors = {}
    for (name, shape), pin in zip(arguments(case).items(), case["pins"].split(";")):
        spec = partition(pin)
        sharding = None if spec is None else NamedSharding(mesh, PartitionSpec(*spec))
        tensors[name] = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
    x, t = tensors.pop("x"), tensors.pop("t")

    def step(w, x, t):
        loss, gradients = jax.value_and_grad(lambda w: loss_of(case, w, x, t))(w)
        return loss, {name: w[name] - 0.01 * gradients[name] for name in w}

    out = (NamedSharding(mesh, PartitionSpec()), {name: w.sharding for name, w in tensors.items()})
    lowered = jax.jit(step, out_shardings=out).lower(tensors, x, t)
    # Only the machine code is worse for it.
    quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    text = lowered.compile(compiler_options=quick).as_text()
    jax.clear_caches()
    return text


# ---- Counting.

COLLECTIVE = re.compile(
    r"= (?P<type>\(.*?\)|\S+) (?P<op>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\("
)
UNKNOWN = re.compile(r"= .* (\S+-start|ragged-all-to-all|collective-broadcast|while|conditional)\(")


def bytes_of(type_text):
    widths = {"f32": 4, "s32": 4, "u32": 4, "pred": 1, "f64": 8, "s64": 8}
    return sum(
        widths[dtype] * math.prod(int(n) for n in dims.split(",") if n)
        for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", type_text)
    )


def group_size(line):
    """The number of devices in a group: of [4,2]<=[8], of mesh['a'=2,'b'=4] {'b'}, or of {{0,1},{2,3}}."""
    if found := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line):
        return int(found[2])
    if found := re.search(r"replica_groups=(?:@?\w+)?mesh\[(.*?)\].*? \{(.*?)\}", line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found[1]))
        n = 1
        for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", found[2]):
            n *= int(part or sizes[name])
        return n
    if found := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return found[1].count(",") + 1
    sys.exit(f"random_pins: no groups are read in: {line}")


def wire_bytes(text):
    total = 0
    for line in text.splitlines():
        found = COLLECTIVE.search(line)
        if not found:
            if unknown := UNKNOWN.search(line):
                sys.exit(f"random_pins: {unknown[1]} is not counted: {line}")
            continue
        size, op = bytes_of(found["type"]), found["op"]
        if op == "collective-permute":
            pairs = re.findall(r"\{(\d+),(\d+)\}", line.split("source_target_pairs=")[1].split("}}")[0] + "}")
            total += size if any(a != b for a, b in pairs) else 0
            continue
        n = group_size(line)
        # `size` is of the result on a device; `whole` of what is gathered or reduced.
        whole = size * n if op == "reduce-scatter" else size
        total += whole * (n - 1) // n * (2 if op == "all-reduce" else 1)
    return total


def product_flops(text):
    """2 · elements of the result · elements summed, over all dots."""
    shapes, total = {}, 0
    for line in text.splitlines():
        found = re.match(r"\s*(?:ROOT )?%(\S+) = \w+\[([\d,]*)\]\S* (\S+?)\((.*)", line)
        if not found:
            # Names are of one computation.
            if line.endswith("{"):
                shapes = {}
            continue
        shape = [int(n) for n in found[2].split(",") if n]
        shapes[found[1]] = shape
        if found[3] == "dot":
            left = shapes[re.search(r"%([^\s,)]+)", found[4])[1]]
            dims = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", line)[1]
            total += 2 * math.prod(shape) * math.prod(left[int(d)] for d in dims.split(",") if d)
    return total


def with_jax(case, folder):
    """`folder`: where JAX's programs are kept, so that they can be counted anew; None: nowhere."""
    kept = folder and pathlib.Path(folder) / f"{case['seed']}.hlo.gz"
    if kept and kept.exists():
        text = gzip.decompress(kept.read_bytes()).decode()
    else:
        text = compiled_text(case)
        if kept:
            kept.write_bytes(gzip.compress(text.encode()))
    return {**case, "jax": wire_bytes(text), "flops": product_flops(text)}


# ---- The file.


def read():
    return json.loads(FILE.read_text()) if FILE.exists() else []


def write(cases):
    FILE.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS, help="how many the file shall have")
    parser.add_argument("--check", type=int, help="how many to compare")
    parser.add_argument("--keep", help="a folder for JAX's programs")
    parser.add_argument("--hlo", type=int, help="prints JAX's program of this seed instead")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    cases = read()
    if options.hlo is not None:
        print(compiled_text(draw(options.hlo)))
        return 0
    if options.check:
        wrong = [case for case in cases[: options.check] if with_jax(draw(case["seed"]), options.keep) != case]
        for case in wrong:
            print(f"random_pins: JAX gives something else for {case}")
        return 1 if wrong else 0
    while len(cases) < options.steps:
        cases.append(with_jax(draw(len(cases)), options.keep))
        if len(cases) % 10 == 0 or len(cases) == options.steps:
            write(cases)
            print(f"{len(cases)} steps", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
