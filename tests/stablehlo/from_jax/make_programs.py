#!/usr/bin/env python3
"""Writes the programs of tests/stablehlo/from_jax, with what JAX computes of them.

  make_programs.py [FOLDER]      this folder unless said otherwise

NAME.mlir is a function as JAX lowers it, for a mesh [batch=2, model=2] with its shardings; NAME.npz has the arguments (a0, a1, …), the
results (r0, …) and, of programs whose result 0 is a loss, its gradients by the arguments that are weights (g0, …). Needs jax 0.10.2,
flax and optax from PyPI. The tests read what lies here; nothing runs this script but you.
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_default_matmul_precision", "highest")
MESH = jax.make_mesh((2, 2), ("batch", "model"), axis_types=(AxisType.Auto,) * 2)
BATCH = P("batch")


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(16)(x))
        x = jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("batch", "model")))
        return nn.Dense(4)(nn.tanh(nn.Dense(12)(x)))


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.avg_pool(nn.relu(nn.Conv(4, (3, 3))(x)), (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(6, (3, 3), strides=2, feature_group_count=2)(x))
        x = nn.max_pool(x, (2, 2), strides=(1, 1), padding="SAME")
        return nn.Dense(4)(x.reshape((x.shape[0], -1)))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(8)(nn.gelu(nn.Dense(16)(nn.LayerNorm()(x))))


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(12, 8)(tokens) + nn.Embed(6, 8)(jnp.arange(tokens.shape[1]))
        return nn.Dense(12)(nn.LayerNorm()(Block()(x, nn.make_causal_mask(tokens))))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def rnn(weights, steps):
    def step(h, x):
        h = jnp.tanh(x @ weights["in"] + h @ weights["hidden"])
        return h, h.sum(-1)

    h, sums = jax.lax.scan(step, jnp.zeros((steps.shape[1], 8)), steps)
    return (h**2).mean() + (sums * jnp.arange(steps.shape[0])[:, None]).mean()


def remat(weights, x):
    @jax.checkpoint
    def layer(h, w):
        return jnp.tanh(h @ w) + h, None

    h, _ = jax.lax.scan(layer, x, weights, reverse=True)
    return (h**2).mean()


def decode(weights, first):
    """Greedy decoding of one layer of attention with a cache; the loss is of the logits on the way."""
    length, width = 6, weights["table"].shape[1]

    def step(i, state):
        token, keys, values, tokens, total = state
        x = weights["table"][token]
        query = x @ weights["query"]
        keys = jax.lax.dynamic_update_slice(keys, (x @ weights["key"])[:, None], (0, i, 0))
        values = jax.lax.dynamic_update_slice(values, (x @ weights["value"])[:, None], (0, i, 0))
        scores = jnp.einsum("bd,bnd->bn", query, keys) / np.sqrt(width)
        share = jax.nn.softmax(jnp.where(jnp.arange(length) <= i, scores, -1e9))
        logits = (x + jnp.einsum("bn,bnd->bd", share, values) @ weights["out"]) @ weights["table"].T
        token = jnp.argmax(logits, -1).astype(jnp.int32)
        tokens = tokens.at[:, i].set(token)
        return token, keys, values, tokens, total + jax.nn.logsumexp(logits, -1).mean()

    batch = first.shape[0]
    cache = jnp.zeros((batch, length, width))
    start = (first, cache, cache, jnp.zeros((batch, length), jnp.int32), jnp.float32(0))
    *_, tokens, total = jax.lax.fori_loop(0, length, step, start)
    return total, tokens


def drawn(shape, seed, scale=0.5):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, jnp.float32)


def layout_of(path, leaf):
    """Of a weight: the wide dims of the first matrices over the axis model."""
    name = jax.tree_util.keystr(path)
    if leaf.ndim == 3 and any(part in name for part in ("query", "key", "value")):
        return P(None, "model", None)
    if "Dense_0" in name and leaf.ndim == 2:
        return P(None, "model")
    if "Dense_1" in name and leaf.ndim == 2:
        return P("model", None)
    return P()


def placed(tree, layout):
    """The types of a tree's leaves, with their shardings."""
    def of(path, leaf):
        spec = layout(path, leaf) if callable(layout) else layout
        return jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf), sharding=NamedSharding(MESH, spec))

    return jax.tree_util.tree_map_with_path(of, tree)


def write(folder, name, function, arguments, layouts, gradients=False, options=None, debug=True):
    lowered = jax.jit(function, **(options or {})).lower(*[placed(a, l) for a, l in zip(arguments, layouts)])
    text = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True, enable_debug_info=debug)
    with open(os.path.join(folder, name + ".mlir"), "w") as file:
        file.write(text.replace(os.path.dirname(os.path.abspath(__file__)) + "/", ""))
    leaves = lambda tree: [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(tree)]
    arrays = {f"a{i}": leaf for i, leaf in enumerate(leaves(arguments))}
    with jax.default_device(jax.devices()[0]):
        arrays.update({f"r{i}": leaf for i, leaf in enumerate(leaves(jax.jit(function)(*arguments)))})
        if gradients:
            loss = lambda *args: jax.tree_util.tree_leaves(function(*args))[0]
            arrays.update({f"g{i}": leaf for i, leaf in enumerate(leaves(jax.grad(loss)(*arguments)))})
    np.savez(os.path.join(folder, name + ".npz"), **arrays)
    print(f"{name}: {len(text)} characters, {len(arrays)} arrays")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    key = jax.random.key(0)
    labels = jnp.asarray([0, 3, 1, 2], jnp.int32)

    x = drawn((4, 10), 1)
    mlp = Mlp()
    params = mlp.init(key, x)
    loss = lambda params, x, labels: cross_entropy(mlp.apply(params, x), labels)
    write(folder, "mlp", loss, (params, x, labels), (layout_of, BATCH, BATCH), gradients=True)

    images = drawn((4, 8, 8, 2), 2)
    cnn = Cnn()
    params = cnn.init(key, images)
    loss = lambda params, images, labels: cross_entropy(cnn.apply(params, images), labels)
    write(folder, "cnn", loss, (params, images, labels), (P(), BATCH, BATCH), gradients=True)
    write(folder, "cnn_gradient", jax.value_and_grad(loss), (params, images, labels), (P(), BATCH, BATCH), debug=False)

    tokens = jnp.asarray(np.random.default_rng(3).integers(0, 12, (4, 6)), jnp.int32)
    model = Transformer()
    params = model.init(key, tokens)
    loss = lambda params, tokens: cross_entropy(model.apply(params, tokens), jnp.roll(tokens, -1, 1))
    write(folder, "transformer", loss, (params, tokens), (layout_of, BATCH), gradients=True, debug=False)

    optimizer = optax.adam(1e-2)

    def step(params, state, tokens):
        value, gradients = jax.value_and_grad(loss)(params, tokens)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    state = jax.tree_util.tree_map(lambda leaf: leaf if leaf.ndim == 0 else leaf + 0.01, optimizer.init(params))
    write(folder, "adam", step, (params, state, tokens), (layout_of, layout_of, BATCH))

    weights = {"in": drawn((5, 8), 4), "hidden": drawn((8, 8), 5)}
    steps = drawn((7, 4, 5), 6)
    shards = (lambda path, leaf: P(None, "model"), P(None, "batch"))
    write(folder, "scan", rnn, (weights, steps), shards, gradients=True)
    write(folder, "scan_gradient", jax.value_and_grad(rnn), (weights, steps), shards, debug=False)

    layers, x = drawn((3, 8, 8), 7), drawn((4, 8), 8)
    write(folder, "remat", remat, (layers, x), (P(None, None, "model"), BATCH), gradients=True)
    write(folder, "remat_gradient", jax.value_and_grad(remat), (layers, x), (P(None, None, "model"), BATCH), debug=False)

    weights = {name: drawn((8, 8), 10 + i) for i, name in enumerate(("query", "key", "value", "out"))}
    weights["table"] = drawn((11, 8), 9)
    first = jnp.asarray([1, 5, 2, 10], jnp.int32)
    jax_decode = lambda weights, first: decode(weights, first)
    write(folder, "decode", jax_decode, (weights, first), (P(), BATCH))
    with_gradients = np.load(os.path.join(folder, "decode.npz"))
    grads = jax.tree_util.tree_leaves(jax.grad(lambda weights: decode(weights, first)[0])(weights))
    np.savez(os.path.join(folder, "decode.npz"), **with_gradients, **{f"g{i}": np.asarray(g) for i, g in enumerate(grads)})


main()
