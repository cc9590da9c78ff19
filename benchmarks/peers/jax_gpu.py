"""The works of gpu_step in JAX: one jit with donated state; attention by cuDNN where JAX has it."""

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

    jax.config.update("jax_default_matmul_precision", "highest")  # f32 is f32; of bf16 it changes nothing

    def training(weights, batches, loss_of):
        zeros = lambda: jax.device_put(jax.tree.map(np.zeros_like, weights))
        state = (jax.device_put(weights), zeros(), zeros(), jax.device_put(np.float32(0)))
        jitted = jax.jit(jax_gpt.step_of(loss_of), donate_argnums=0)
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

    def gpt_loss(attend):
        def loss_of(weights, x, y):
            return jax_gpt.loss_of(jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights), x, y, attend)

        return loss_of

    gpt_work.use_gpt2(gpu_turns.GPT_BATCH)
    works = {}
    for batch in gpu_turns.MLP_BATCHES:
        weights, images, labels = work.data_of(batch)
        works[f"mlp/{batch}"] = training(weights, (images, labels), mlp_loss)
    name = f"gpt/{gpu_turns.GPT_BATCH}"
    works[name] = training(gpt_work.weights(), gpt_work.data(), gpt_loss(by_cudnn))
    works[f"{name}/no_cudnn"] = training(gpt_work.weights(), gpt_work.data(), gpt_loss(None))
    gpu_turns.serve(f"JAX {jax.__version__}", works)


if __name__ == "__main__":
    main()
