"""The MLP and the transformer of gpu_step in JAX: one jit with donated state; attention by cuDNN where JAX has it."""

import os

import gpt_work
import gpu_turns
import jax_gpt
import work

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # the others need memory, too


def main():
    import jax
    import jax.numpy as jnp
    import numpy as np

    def training(weights, batches, loss_of, about):
        precision = "tensorfloat32" if about["precision"] == "tf32" else "highest"  # of bf16 it changes nothing

        def precise(*arguments):
            with jax.default_matmul_precision(precision):
                return loss_of(*arguments)

        zeros = lambda: jax.device_put(jax.tree.map(np.zeros_like, weights))
        state = (jax.device_put(weights), zeros(), zeros(), jax.device_put(np.float32(0)))
        jitted = jax.jit(jax_gpt.step_of(precise), donate_argnums=0)
        done = 0

        def step():
            nonlocal state, done
            loss, state = jitted(state, *(v[done % work.BATCHES] for v in batches))
            done += 1
            return float(loss)

        return step

    def mlp_loss(weights, x, labels):
        h = x
        for layer in range(3):
            h = h @ weights[2 * layer] + weights[2 * layer + 1]
            if layer < 2:
                h = jax.nn.relu(h)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), labels[:, None], axis=1))

    def by_cudnn(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")

    def gpt_loss(attend, about):
        dtype = jnp.bfloat16 if about["precision"] == "bf16" else jnp.float32

        def loss_of(weights, x, y):
            return jax_gpt.loss_of(jax.tree.map(lambda w: w.astype(dtype), weights), x, y, attend)

        return loss_of

    def mlp(about):
        return [("", lambda: work.data_of(about["batch"]), lambda data: training(data[0], data[1:], mlp_loss, about))]

    def gpt(about):
        def data():
            gpt_work.use(about)
            return gpt_work.weights(), gpt_work.data()

        def begin(attend):
            return lambda data: training(*data, gpt_loss(attend, about), about)

        return [("", data, begin(by_cudnn)), ("/no_cudnn", data, begin(None))]

    asked, _ = gpu_turns.parse()
    works = {}
    for name, about in asked.items():
        ways = {"mlp": mlp, "gpt": gpt}.get(about["model"])
        for end, make_data, begin in ways(about) if ways else []:
            works[name + end] = gpu_turns.Work(make_data, begin)
    gpu_turns.serve(f"JAX {jax.__version__}", works)


if __name__ == "__main__":
    main()
