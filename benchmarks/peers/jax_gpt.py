"""The step of gpt_work.py in JAX, on one device or on virtual CPU devices: jit with donated state.

The meshes are meshwork's: examples along "batch"; along "model" heads, hidden units and the vocabulary.
"""

import gpt_work
import work
from jax_mesh import MESHES, PROCESSES, jax_mesh


def loss_of(weights, tokens, targets, attend=None):
    """In the dtype of the weights; norms and the loss are computed in f32. `attend`: of queries, keys and values
    [b,s,h,d]; None: scores and shares as they are written down."""
    import jax
    import jax.numpy as jnp

    def normed(x, norm):
        dtype, x = x.dtype, x.astype(jnp.float32)
        centered = x - jnp.mean(x, -1, keepdims=True)
        scaled = centered * jax.lax.rsqrt(jnp.mean(centered**2, -1, keepdims=True) + 1e-5)
        return (scaled * norm["scale"] + norm["offset"]).astype(dtype)

    def by_scores(q, k, v):
        s = q.shape[1]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        shares = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -jnp.inf))
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v)

    def attention(x, w):
        b, s, d = x.shape
        q, k, v = ((x @ w[name]).reshape(b, s, gpt_work.HEADS, -1) for name in ("query", "key", "value"))
        return (attend or by_scores)(q, k, v).reshape(b, s, d) @ w["out"]

    x = weights["embedding"][tokens] + weights["positions"]
    for w in weights["blocks"]:
        x = x + attention(normed(x, w["norm1"]), w)
        h = jax.nn.gelu(normed(x, w["norm2"]) @ w["in"] + w["in_bias"], approximate=True)
        x = x + h @ w["down"] + w["down_bias"]
    logits = (normed(x, weights["norm"]) @ weights["head"]).astype(jnp.float32)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -jnp.mean(picked)


def step_of(loss_of):
    """A step of Adam on `loss_of`: state and batch to loss and state."""
    import jax
    import jax.numpy as jnp

    def step(state, *batch):
        weights, m, v, t = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, *batch)
        t = t + 1
        m = jax.tree.map(lambda m, g: work.BETA1 * m + (1 - work.BETA1) * g, m, gradients)
        v = jax.tree.map(lambda v, g: work.BETA2 * v + (1 - work.BETA2) * g * g, v, gradients)
        rate, unbias = work.LEARNING_RATE / (1 - work.BETA1**t), 1 / jnp.sqrt(1 - work.BETA2**t)
        weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) * unbias + work.EPSILON), weights, m, v)
        return loss, (weights, m, v, t)

    return step


def main():
    options = gpt_work.parse([mesh for mesh in MESHES if mesh not in PROCESSES])
    mesh = jax_mesh(options.mesh)
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    model = "model" if "model" in mesh.axis_names else None
    norm_spec = {"scale": P(), "offset": P()}
    block_spec = {
        "norm1": norm_spec,
        "query": P(None, model),
        "key": P(None, model),
        "value": P(None, model),
        "out": P(model, None),
        "norm2": norm_spec,
        "in": P(None, model),
        "in_bias": P(model),
        "down": P(model, None),
        "down_bias": P(),
    }
    specs = {
        "embedding": P(model, None),
        "positions": P(),
        "blocks": [block_spec] * gpt_work.LAYERS,
        "norm": norm_spec,
        "head": P(None, model),
    }
    is_spec = lambda x: isinstance(x, P)
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)

    step = step_of(loss_of)
    put = jax.device_put(gpt_work.weights(), shardings)
    zeros = [jax.device_put(jax.tree.map(np.zeros_like, gpt_work.weights()), shardings) for _ in "mv"]
    whole = NamedSharding(mesh, P())
    state = (put, *zeros, jax.device_put(np.float32(0), whole))
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(whole, jax.tree.map(lambda x: x.sharding, state)))
    by_examples = NamedSharding(mesh, P("batch", None))
    tokens, targets = ([jax.device_put(x, by_examples) for x in xs] for xs in gpt_work.data())
    done = 0

    def run(steps):
        nonlocal state, done
        for _ in range(steps):
            loss, state = jitted(state, tokens[done % work.BATCHES], targets[done % work.BATCHES])
            done += 1
            # Steps under way at once can wait for each other's threads for ever.
            if mesh.size > 1:
                jax.block_until_ready(state)
        jax.block_until_ready(state)
        return loss

    gpt_work.report(f"JAX {jax.__version__}", gpt_work.time_steps(run))


if __name__ == "__main__":
    main()
