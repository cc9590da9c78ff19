"""The step of work.py in JAX, on one device, on virtual CPU devices or by two processes: jit with donated state, inputs
put there before.

The meshes are meshwork's: examples along "batch"; along "model" the MLP's first kernel's columns and the second one's rows.
"""

import work
from jax_mesh import MESHES, jax_mesh, run_in_processes


def main():
    options = work.parse(list(MESHES))
    process = run_in_processes(options.mesh)
    mesh = jax_mesh(options.mesh)
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec as P

    is_cnn = options.model == "cnn"
    model = "model" if "model" in mesh.axis_names else None
    specs = [P()] * 6 if is_cnn else [P(None, model), P(model), P(model, None), P(), P(), P()]
    shardings = [NamedSharding(mesh, spec) for spec in specs]

    def loss_of(weights, x, labels):
        h = x
        if is_cnn:
            layout = ("NHWC", "HWIO", "NHWC")
            h = jax.lax.conv_general_dilated(h, weights[0], (1, 1), "VALID", dimension_numbers=layout)
            h = jax.nn.relu(h + weights[1])
            h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            h = h.reshape(h.shape[0], -1)
        for layer in range(1 if is_cnn else 0, 3):
            h = h @ weights[2 * layer] + weights[2 * layer + 1]
            if layer < 2:
                h = jax.nn.relu(h)
        picked = jnp.take_along_axis(jax.nn.log_softmax(h), labels[:, None], axis=1)
        return -jnp.mean(picked)

    def step(state, x, labels):
        weights, m, v, t = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, labels)
        if is_cnn:
            return loss, ([w - work.CNN_LEARNING_RATE * g for w, g in zip(weights, gradients)], m, v, t)
        t = t + 1
        m = [work.BETA1 * m + (1 - work.BETA1) * g for m, g in zip(m, gradients)]
        v = [work.BETA2 * v + (1 - work.BETA2) * g * g for v, g in zip(v, gradients)]
        rate, unbias = work.LEARNING_RATE / (1 - work.BETA1**t), 1 / jnp.sqrt(1 - work.BETA2**t)
        weights = [w - rate * m / (jnp.sqrt(v) * unbias + work.EPSILON) for w, m, v in zip(weights, m, v)]
        return loss, (weights, m, v, t)

    def make_run(batch):
        weights, images, labels = work.data_of(batch, options.model)
        put = [jax.device_put(w, s) for w, s in zip(weights, shardings)]
        moments = [] if is_cnn else list(zip(weights, shardings))
        zeros = [[jax.device_put(np.zeros_like(w), s) for w, s in moments] for _ in "mv"]
        whole = NamedSharding(mesh, P())
        state = (put, *zeros, jax.device_put(np.float32(0), whole))
        of_state = jax.tree.map(lambda x: x.sharding, state)
        jitted = jax.jit(step, donate_argnums=0, out_shardings=(whole, of_state))
        xs = [jax.device_put(x, NamedSharding(mesh, P("batch"))) for x in images]
        ys = [jax.device_put(y, NamedSharding(mesh, P("batch"))) for y in labels]
        done = 0

        def run(steps):
            nonlocal state, done
            for _ in range(steps):
                loss, state = jitted(state, xs[done % work.BATCHES], ys[done % work.BATCHES])
                done += 1
                # Steps under way at once can wait for each other's threads for ever.
                if mesh.size > 1:
                    jax.block_until_ready(state)
            jax.block_until_ready(state)
            return loss

        return run

    # All processes make as many steps.
    if jax.process_count() > 1:
        work.MOST_SECONDS = float("inf")
    results = {batch: work.time_steps(make_run(batch), batch) for batch in options.batch}
    if process == 0:
        work.report(f"JAX {jax.__version__}", results)


if __name__ == "__main__":
    main()
