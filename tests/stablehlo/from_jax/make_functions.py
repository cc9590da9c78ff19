#!/usr/bin/env python3
"""Writes small functions as JAX lowers them, with what JAX computes of them: one for each way that an op is used.

  make_functions.py FOLDER [--all]     NAME.mlir, and NAME.npz with the arguments (a0, …) and the results (r0, …)

Without --all those that tests/stablehlo/from_jax/functions keeps. Needs jax 0.10.2 from PyPI.
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_default_matmul_precision", "highest")
GENERATOR = np.random.default_rng(0)


def reals(*shape, low=-2.0, high=2.0, dtype=np.float32):
    return GENERATOR.uniform(low, high, shape).astype(dtype)


def wholes(*shape, low=-5, high=6, dtype=np.int32):
    return GENERATOR.integers(low, high, shape).astype(dtype)


def bools(*shape):
    return GENERATOR.integers(0, 2, shape).astype(bool)


X = reals(4, 5)
ODD = np.array([[0.0, -0.0, np.nan, np.inf], [-np.inf, 1.5, -2.5, 0.5]], np.float32)
KEPT = {}  # in the repository
ALL = {}


def case(name, function, *arguments, kept=True):
    assert name not in ALL, name
    ALL[name] = (function, arguments)
    if kept:
        KEPT[name] = ALL[name]


# Element by element.
for name in ("abs ceil cbrt cos exp expm1 floor log log1p negative rint round sign sin sqrt square tan tanh sinh cosh arcsinh "
             "isfinite isinf isnan exp2 log2 reciprocal trunc").split():
    positive = name in ("log", "log2", "log1p", "sqrt")
    case(f"unary_{name}", getattr(jnp, name), reals(3, 4, low=0.1) if positive else reals(3, 4), kept=False)
case("unary_odd", lambda x: [jnp.sign(x), jnp.floor(x), jnp.round(x), jnp.isnan(x), jax.nn.relu(x), x.astype(jnp.int32)], ODD)
case("inverse_functions", lambda x: [jnp.arcsin(x), jnp.arccos(x), jnp.arctan(x), jnp.arctanh(x), lax.erf_inv(x)], reals(3, 4, low=-0.9, high=0.9))
case("special_functions", lambda x: [lax.lgamma(x), lax.digamma(x), lax.erf(x), lax.erfc(x), jax.nn.sigmoid(x), lax.polygamma(1.0, x)], reals(3, 4, low=0.2))
case("next_numbers", jnp.nextafter, np.array([0, -0.0, 1, -1, 2, np.inf, np.nan, 3, 0], np.float32), np.array([1, -1, 2, 1, 2, 0, 1, np.nan, 0], np.float32))
case("round_away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), np.array([0.5, 1.5, -0.5, -2.5, 2.4, 0.49999997], np.float32))
case("activations", lambda x: [jax.nn.gelu(x), jax.nn.gelu(x, approximate=False), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x), jax.nn.leaky_relu(x), jax.nn.relu6(x)], reals(3, 4))
case("binary", lambda x, y: [x + y, x - y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), jnp.arctan2(x, y), jnp.power(jnp.abs(x), y), x % y, jnp.fmod(x, y), jnp.hypot(x, y)], reals(3, 4), reals(4))
case("integer_binary", lambda x, y: [x + y, x - y, x * y, x // y, x % y, jnp.maximum(x, y), x & y, x | y, x ^ y, x << 2, x >> 1, lax.shift_right_logical(x, jnp.int32(3)), ~x], wholes(3, 4), wholes(4, low=1))
case("unsigned", lambda x, y: [x + y, x * y, x // y, x % y, x > y, jnp.maximum(x, y), x >> 3, x.astype(jnp.float32), x.astype(jnp.int32), lax.clz(x), lax.population_count(x)], wholes(3, 4, low=0, high=2**32, dtype=np.uint32), wholes(4, low=1, high=2**32, dtype=np.uint32))
case("bits", lambda x: [lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint32) >> 9], reals(5))
case("logic", lambda x, y: [x & y, x | y, x ^ y, ~x, x.astype(jnp.float32), jnp.all(x, 0), jnp.any(x), x < y], bools(3, 4), bools(3, 4))
case("comparisons", lambda x, y: [x == y, x != y, x < y, x <= y, x > y, x >= y], ODD, ODD[::-1].copy())
case("selects", lambda x, y, p: [jnp.where(p, x, y), jnp.where(x > 0, x, 0.0), jnp.clip(x, -1, y), lax.select(p[0, 0], x, y)], X, reals(4, 5), bools(4, 5))
case("casts", lambda x, i: [x.astype(jnp.int32), i.astype(jnp.float32), i > 0, x.astype(jnp.bfloat16).astype(jnp.float32), x.astype(bool), i.astype(bool)], X * 3, wholes(4, 5))
case("bfloat16", lambda x: (x * x + 1).sum(-1), X.astype(jnp.bfloat16), kept=False)
case("images_u8", lambda x: x.astype(jnp.float32) / 255, wholes(2, 3, low=0, high=256, dtype=np.uint8))

# Shapes.
case("shapes", lambda x: [x.T, x.reshape(2, 10), x[:, None], x[..., None, :].repeat(2, 1), jnp.broadcast_to(x, (3, 4, 5)), x.ravel(), jnp.squeeze(x[None], 0), jnp.moveaxis(x[None], 0, 2)], X)
case("slices", lambda x: [x[1:3], x[:, ::2], x[::-1], x[-1], x[:, 1:4:2], x[2, 3]], X)
case("pads", lambda x: [jnp.pad(x, 1), jnp.pad(x, ((0, 1), (2, 0)), constant_values=7), lax.pad(x, jnp.float32(-1), ((1, -1, 1), (0, 2, 0))), jnp.pad(x, 1, mode="edge"), jnp.pad(x, 1, mode="reflect")], X)
case("joins", lambda x, y: [jnp.concatenate([x, y], 0), jnp.stack([x, y], 1), jnp.tile(x, (2, 1)), jnp.roll(x, 2, 1), jnp.flip(x, 0)], X, reals(4, 5))
case("constants", lambda x: x + jnp.asarray(np.arange(20, dtype=np.float32).reshape(4, 5)) * np.float32(0.1) + jnp.eye(4, 5) + jnp.linspace(0, 1, 5), X)
case("large_constants", lambda x, i: [jnp.where(np.tril(np.ones((16, 16), bool)), x[0, 0], 0.0), i ^ jnp.array([1, 2**32 - 1, 5], np.uint32)], X, wholes(3, low=0, high=2**32, dtype=np.uint32))
case("bytes", lambda u, i: [u + u, 255 - u, u // 7, u > 100, i * i, -i, jnp.abs(i), i.sum(), jnp.max(u)], wholes(6, low=0, high=256, dtype=np.uint8), wholes(6, low=-128, high=128, dtype=np.int8))
case("half_precision", lambda x: [x * x, jnp.exp(x), x.sum(-1), x @ x.T, jnp.max(x), jnp.sort(x, 1), lax.top_k(x, 2)[0], lax.cummax(x, 1)], X.astype(np.float16))
case("reduced_precision", lambda x: [lax.reduce_precision(x, 8, 7), lax.reduce_precision(x, 8, 23)], X)
case("whole_constants", lambda x: [x + jnp.asarray([1, -2, 3, 2**31 - 1]), jnp.asarray([True, False, True, True]) & (x > 0)], wholes(4))

# Reductions, order.
case("reductions", lambda x: [x.sum(), x.sum(0), x.mean(1), x.max(1), x.min(0, keepdims=True), x.prod(1), x.var(0), x.std(), jnp.linalg.norm(x, axis=1), x.sum(0, initial=3.0)], X)
case("integer_reductions", lambda x: [x.sum(0), x.max(1), x.min(), x.prod(0)], wholes(4, 5))
case("extremes", lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), jnp.max(x, 1)], wholes(4, 5).astype(np.float32))
case("extremes_of_odd", lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.max(x, 1), jnp.min(x, 1)], ODD)
case("integer_extremes", lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 0)], wholes(4, 5))
case("softmaxes", lambda x: [jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.logsumexp(x, 1)], X)
case("sorts", lambda x: [jnp.sort(x, 1), jnp.sort(x, 0)[::-1], jnp.argsort(x, 1), jnp.sort(x, descending=True)], wholes(4, 5).astype(np.float32))
case("sorts_of_odd", lambda x: [jnp.sort(x, 1), jnp.argsort(x, 1)], ODD)
case("sorts_together", lambda k, x, i: lax.sort((k, x, i), dimension=1, num_keys=1), wholes(4, 5), X, wholes(4, 5))
case("sorts_by_two_keys", lambda a, b, x: [lax.sort((a, b, x), dimension=1, num_keys=2), jnp.lexsort((b[0], a[0]))], wholes(4, 5, low=0, high=2), wholes(4, 5), X)
case("orders_of_unsigned", lambda x, u: [jnp.sort(x), lax.cummax(x, 0), lax.top_k(x, 2)[0], jnp.argmax(x), x.at[0].max(u), jnp.max(x), jnp.clip(x, u, u + 9)], np.array([3, 2**31 + 5, 1, 2**32 - 1, 7], np.uint32), np.uint32(2**31))
case("extremes_of_bools", lambda x: [jnp.argmax(x > 0, 1), jnp.argmin(x > 0, 0), jnp.max(x > 0, 1)], X)
case("total_order", lambda x, y: [jnp.searchsorted(x, y), jnp.digitize(y, x), jnp.interp(y, x, x * 2)], np.array([-1, -0.5, 0, 1, 3], np.float32), np.array([-2, -0.5, 0.25, 3, 9], np.float32), kept=False)
case("median", lambda x: [jnp.median(x, 1), jnp.quantile(x, 0.3)], X, kept=False)
case("top_k", lambda x: lax.top_k(x, 3), X)
case("running", lambda x: [jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 1), lax.cummin(x, 0, reverse=True), lax.cumsum(x, 1, reverse=True)], X)
case("running_whole", lambda x: [jnp.cumsum(x, 0)], wholes(4, 5))
case("counts", lambda x: [jnp.bincount(x, length=6), jnp.unique(x, size=4), jnp.searchsorted(jnp.sort(x), jnp.asarray([0, 3]))], wholes(8, low=0, high=6), kept=False)

# Indices.
INDEX = np.array([[0, 3], [-1, 2], [1, 1]], np.int32)
case("takes", lambda x, i: [x[i], jnp.take(x, i, axis=1), jnp.take(x, i, axis=0, mode="clip"), jnp.take(x, i, axis=1, mode="wrap"), x[:, i[0]], x[i[:, 0], i[:, 1]], x[i[0, 0]]], X, INDEX)
case("takes_beyond", lambda x, i: [jnp.take(x, i, axis=0), jnp.take(x, i, axis=0, mode="clip"), x.at[i].get(mode="fill", fill_value=-1.0), x.at[i].get(mode="clip")], X, np.array([0, 9, -9, 3], np.int32))
case("takes_along", lambda x, i: [jnp.take_along_axis(x, i, 1), jnp.take_along_axis(x, i[:, :1], 1)], X, wholes(4, 3, low=0, high=5))
case("takes_in_batches", lambda x, i: [jax.vmap(lambda row, j: row[j])(x, i), jax.vmap(lambda m, j: m[:, j], in_axes=(0, 0))(x[None].repeat(4, 0), i)], X, wholes(4, low=0, high=4))
case("windows_taken", lambda x, i: [jax.vmap(lambda j: lax.dynamic_slice(x, (j, 1), (2, 3)))(i), jax.vmap(lambda row, j: lax.dynamic_slice(row, (j,), (2,)))(x, i)], X, np.array([0, 3, 1, 7], np.int32))
case("gather_by_hand", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(1,), start_index_map=(1, 0)), (3, 1), mode="clip"), X, np.array([[0, 0], [4, 9], [2, 1]], np.int32))
case("scatters", lambda x, i, u: [x.at[i].set(u), x.at[i].add(u), x.at[:, i].add(u.T[:4]), x.at[i].max(u), x.at[i].min(u), x.at[i, i].set(0.0), x.at[1].set(7.0), x.at[:, 2].add(1.0)], X, np.array([0, 2, 3, 2, 9], np.int32), reals(5, 5))
case("scatters_apart", lambda x, i, u: [x.at[i].set(u, unique_indices=True), x.at[-1, 1:3].set(9.0), x.at[::2].add(1.0)], X, np.array([0, 2], np.int32), reals(2, 5))
case("scatters_in_batches", lambda x, i, u: [jax.vmap(lambda r, j, v: r.at[j].add(v))(x, i, u), jax.vmap(lambda r, j, v: r.at[j].set(v))(x, i, u)], X, wholes(4, low=0, high=5), reals(4))
case("windows_scattered", lambda x, i, u: jax.vmap(lambda r, j, v: lax.dynamic_update_slice(r, v, (j,)))(x, i, u), X, np.array([0, 3, 1, 7], np.int32), reals(4, 2))
case("scatter_windows_by_hand", lambda x, i, u: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers(update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1))), X, np.array([[0, 0], [2, 3], [3, 3], [1, 1]], np.int32), reals(4, 2, 2))
case("scatter_bools", lambda x, i: x.at[i].set(True), bools(5, 3), np.array([1, 4], np.int32))
case("indices_of_unsigned", lambda x, i: [jnp.take(x, i, axis=0, mode="clip"), lax.dynamic_slice_in_dim(x, i[0], 2)], X, np.array([2**31 + 7, 1, 2**32 - 1], np.uint32))
case("scatters_of_others", lambda b, i, u: [b.at[i].max(True), b.at[i].min(False), u.at[i].set(jnp.uint8(7)), u.at[i].add(jnp.uint8(250))], bools(5), np.array([1, 3], np.int32), wholes(5, low=0, high=256, dtype=np.uint8))
case("segments", lambda x, s: [jax.ops.segment_sum(x, s, 3), jax.ops.segment_max(x, s, 3)], X, np.array([0, 2, 2, 1], np.int32))
case("one_hot", lambda i: jax.nn.one_hot(i, 4), np.array([0, 3, 7, -1], np.int32))
case("dynamic", lambda x, i: [lax.dynamic_slice(x, (i, 2), (2, 2)), lax.dynamic_update_slice(x, x[:2, :2] * 2, (i, i)), lax.dynamic_index_in_dim(x, i, 1)], X, np.int32(3))

# Products.
case("products", lambda x, y: [x @ y, jnp.einsum("ij,jk->ki", x, y), x.T @ x, jnp.dot(x[0], y[:, 0]), jnp.outer(x[0], y[0]), x @ y[:, 0]], X, reals(5, 3))
case("batched_products", lambda x, y: [x @ y, jnp.einsum("bij,bkj->ikb", x, jnp.swapaxes(y, 1, 2)), jnp.einsum("bij,bij->b", x, x), jnp.einsum("bthd,bshd->bhts", x.reshape(2, 3, 2, 2), x.reshape(2, 3, 2, 2))], reals(2, 3, 4), reals(2, 4, 5))
case("whole_products", lambda x, y: x @ y, wholes(3, 4), wholes(4, 2))
case("product_of_bf16", lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32), X.astype(jnp.bfloat16), reals(5, 3).astype(jnp.bfloat16), kept=False)
IMAGES, FILTERS = reals(2, 6, 5, 4), reals(3, 3, 4, 6)
conv = lambda x, w, **k: lax.conv_general_dilated(x, w, k.pop("strides", (1, 1)), k.pop("padding", "SAME"), dimension_numbers=k.pop("numbers", ("NHWC", "HWIO", "NHWC")), **k)
case("convolutions", lambda x, w: [conv(x, w), conv(x, w, strides=(2, 1), padding="VALID"), conv(x, w, rhs_dilation=(2, 1)), conv(x, w[:, :, :2], feature_group_count=2), conv(x, w[:, :, :1, :4], feature_group_count=4)], IMAGES, FILTERS)
case("convolutions_turned", lambda x, w: [conv(x, w, lhs_dilation=(2, 2), padding=((1, 2), (2, 1))), lax.conv_transpose(x, w, (2, 2), "SAME"), conv(x, w, padding=((2, -1), (0, 3)))], IMAGES, FILTERS)
case("convolutions_of_channels_first", lambda x, w: conv(x, w, numbers=("NCHW", "OIHW", "NCHW")), reals(2, 3, 6, 5), reals(4, 3, 3, 3))
case("convolution_gradients", jax.grad(lambda x, w: (conv(x, w, strides=(2, 1), feature_group_count=2, rhs_dilation=(1, 2)) ** 2).sum(), (0, 1)), IMAGES, FILTERS[:, :, :2])
case("convolutions_along_one_dim", lambda x, w: lax.conv_general_dilated(x, w, (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")), reals(2, 7, 3), reals(3, 3, 4))
window = lambda f, x, init: lax.reduce_window(x, init, f, (1, 2, 3, 1), (1, 2, 1, 1), "SAME")
case("pools", lambda x: [window(lax.max, x, -jnp.inf), window(lax.add, x, 0.0), window(lax.min, x, jnp.inf), lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 2, 1, 1))], IMAGES)
case("pools_over_other_dims", lambda x: [lax.reduce_window(x, -jnp.inf, lax.max, (2, 1, 2, 2), (1, 1, 1, 1), "VALID"), lax.reduce_window(x, 0.0, lax.add, (1, 1, 1, 2), (1, 1, 1, 2), "VALID")], IMAGES)
case("pools_of_whole_numbers", lambda x, u, b: [window(lax.max, x, -2**31), window(lax.add, x, 0), lax.reduce_window(u, jnp.uint32(0), lax.add, (2,), (1,), "VALID"), lax.reduce_window(b, jnp.uint8(0), lax.add, (2,), (1,), "VALID")], wholes(2, 6, 5, 4), wholes(6, low=0, high=2**32, dtype=np.uint32), wholes(6, low=0, high=256, dtype=np.uint8))
case("gradients_of_least_pools", jax.grad(lambda x: (window(lax.min, x, jnp.inf) ** 2).sum()), IMAGES)
case("pool_gradients", jax.grad(lambda x: (window(lax.max, x, -jnp.inf) ** 2).sum() + (window(lax.add, x, 0.0) ** 3).sum()), IMAGES)
A = reals(2, 4, 4)
case("solvers", lambda a, b: [jnp.linalg.cholesky(a @ jnp.swapaxes(a, 1, 2) + 4 * jnp.eye(4)), lax.linalg.triangular_solve(jnp.tril(a) + 3 * jnp.eye(4), b, left_side=True, lower=True), lax.linalg.triangular_solve(jnp.triu(a) + 3 * jnp.eye(4), jnp.swapaxes(b, 1, 2), left_side=False, lower=False, transpose_a=True)], A, reals(2, 4, 3), kept=False)

# Control flow.
case("branches", lambda p, x: [lax.cond(p, lambda x: x * 2, lambda x: x - 1, x), lax.switch(jnp.int32(2) * p, [lambda x: x, lambda x: -x, lambda x: x * x], x)], np.bool_(True), X)
case("while_loop", lambda x: lax.while_loop(lambda s: s[1].sum() < 100, lambda s: (s[0] + 1, s[1] * 1.5), (0, jnp.abs(x))), X)
case("fori_loop", lambda x: lax.fori_loop(2, 5, lambda i, y: y * 0.5 + i, x), X)
case("fori_loop_of_unknown_length", lambda n, x: lax.fori_loop(0, n, lambda i, y: y * 0.5 + i, x), np.int32(3), X)
case("scans", lambda x: [lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(5), x), lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.ones(5), x, reverse=True), lax.scan(lambda c, _: (c + 1, c), 0, None, length=3), lax.map(lambda r: r.sum(), x)], X)
case("nested_scans", lambda x: lax.scan(lambda c, r: (lax.scan(lambda d, e: (d + e * c.sum(), d), c[0], r)[0] * c * 0.1, r.sum()), jnp.ones(5), x), X)
case("scan_of_indices", lambda x: lax.scan(lambda c, i: (c + x[i] + x[3 - i], c.sum()), jnp.zeros(5), jnp.arange(4)), X)
case("scan_reading_rows_twice", lambda x: lax.fori_loop(0, 4, lambda i, c: c + x[i] * x[3 - i] + x.sum(0), jnp.zeros(5)), X)
case("scan_writing_and_reading", lambda x: lax.fori_loop(1, 4, lambda i, y: y.at[i].set(y[i] + y[i - 1]), x), X)
case("scan_with_steps_of_two", lambda x: lax.scan(lambda s, r: ((s[0] + 2, s[1] + r * s[0]), s[0]), (3, jnp.zeros(5)), x), X)
case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), X, kept=False)

# Values of the program around a body together with its own.
case("nested_indices", lambda x: lax.fori_loop(0, 4, lambda i, c: lax.fori_loop(0, 5, lambda j, d: d + x[i, j] * jnp.float32(i), c), 0.0), X)
case("joins_in_bodies", lambda x: lax.scan(lambda c, r: (jnp.concatenate([x[0, :2], c])[:5], jnp.stack([x[1], r]).sum(0)), jnp.zeros(5), x), X)
case("choices_in_bodies", lambda x, y: lax.fori_loop(0, 4, lambda i, c: c + jnp.where(i % 2 == 0, x, y), x), X, reals(4, 5))
case("branches_in_bodies", lambda p, x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, lax.cond(p, lambda y: y * 2, lambda y: y - 1, s[1]), lax.switch(s[0], [lambda y: y + 1, lambda y: y * 3, lambda y: y - 2, lambda y: -y], s[2])), (jnp.int32(0), x, x))[1:], np.bool_(False), X)
case("loops_of_nothing", lambda p, x: (lax.fori_loop(0, 3, lambda i, c: c, x), lax.cond(p, lambda: (), lambda: ()), x)[2], np.bool_(True), X)
case("a_switch_of_many", lambda i, x: lax.switch(i, [(lambda k: lambda x: x * k)(k) for k in range(40)], x), np.int32(37), X, kept=False)

# Random numbers, bit by bit.
KEY = np.array([0, 7], np.uint32)
case("random", lambda k: [jax.random.uniform(k, (5,)), jax.random.bits(k, (3,)).astype(jnp.float32), jax.random.randint(k, (4,), 0, 9), jax.random.split(k)[1].astype(jnp.float32)], KEY)
case("random_others", lambda k: [jax.random.normal(k, (4, 3)), jax.random.permutation(k, 6), jax.random.bernoulli(k, 0.3, (8,)), jax.random.categorical(k, jnp.zeros(5)), jax.random.truncated_normal(k, -2, 2, (3,))], KEY, kept=False)

# Gradients of ops, as JAX writes them.
case("gradients", lambda x: jax.grad(lambda x: jnp.tanh(x).sum() + jax.nn.softmax(x).max() + jnp.sort(x, 1)[:, 1].sum() + jnp.cumsum(x, 1).prod() + x[jnp.asarray([0, 0, 1])].sum())(x), X)
case("attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), reals(2, 4, 2, 3), reals(2, 4, 2, 3), reals(2, 4, 2, 3))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, (function, arguments) in (ALL if "--all" in sys.argv else KEPT).items():
        traced = jax.jit(function, keep_unused=True).trace(*arguments)
        # For a CPU some become calls of LAPACK.
        lowered = traced.lower(lowering_platforms=("tpu",)) if name == "solvers" else traced.lower()
        text = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True)
        with open(os.path.join(folder, name + ".mlir"), "w") as file:
            file.write(text)
        bits = lambda x: np.asarray(x, np.float32) if x.dtype == jnp.bfloat16 else np.asarray(x).view(np.int32) if x.dtype == jnp.uint32 else np.asarray(x)
        arrays = {f"a{i}": bits(a) for i, a in enumerate(arguments)}
        results = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
        arrays.update({f"r{i}": bits(r) for i, r in enumerate(results)})
        np.savez(os.path.join(folder, name + ".npz"), **arrays)
    print(len(os.listdir(folder)) // 2, "functions")


main()
