"""The step of gpt_work.py in PyTorch on one device, the faster of 1 and 2 threads."""

import gpt_work
import work


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    return [leaf for value in tree for leaf in leaves(value)] if isinstance(tree, list) else [tree]


def mapped(tree, f):
    if isinstance(tree, dict):
        return {name: mapped(value, f) for name, value in tree.items()}
    return [mapped(value, f) for value in tree] if isinstance(tree, list) else f(tree)


def loss_of(weights, x, y):
    """In the dtype of the weights; norms and the loss are computed in f32."""
    import torch.nn.functional as F

    def normed(x, norm):
        return F.layer_norm(x, (gpt_work.DIM,), norm["scale"], norm["offset"], 1e-5)

    def attention(x, w):
        b, s, d = x.shape
        q, k, v = ((x @ w[n]).view(b, s, gpt_work.HEADS, -1).transpose(1, 2) for n in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, s, d) @ w["out"]

    x = F.embedding(x, weights["embedding"]) + weights["positions"]
    for w in weights["blocks"]:
        x = x + attention(normed(x, w["norm1"]), w)
        h = F.gelu(normed(x, w["norm2"]) @ w["in"] + w["in_bias"], approximate="tanh")
        x = x + h @ w["down"] + w["down_bias"]
    logits = normed(x, weights["norm"]) @ weights["head"]
    return F.cross_entropy(logits.view(-1, gpt_work.VOCABULARY).float(), y.reshape(-1))


def adam_of(tensors):
    import torch

    betas = (work.BETA1, work.BETA2)
    return torch.optim.Adam(tensors, lr=work.LEARNING_RATE, betas=betas, eps=work.EPSILON, fused=True)


def main():
    gpt_work.parse(["batch=1"])
    import torch

    tokens, targets = (torch.from_numpy(xs).long() for xs in gpt_work.data())

    def measure(threads):
        torch.set_num_threads(threads)
        weights = mapped(gpt_work.weights(), lambda w: torch.from_numpy(w).requires_grad_())
        adam = adam_of(leaves(weights))
        done = 0

        def run(steps):
            nonlocal done
            for _ in range(steps):
                adam.zero_grad()
                loss = loss_of(weights, tokens[done % work.BATCHES], targets[done % work.BATCHES])
                loss.backward()
                adam.step()
                done += 1
            return loss.item()

        return gpt_work.time_steps(run)

    results = [measure(threads) for threads in (1, 2)]
    gpt_work.report(f"PyTorch {torch.__version__}", min(results, key=lambda result: result["ms"]))


if __name__ == "__main__":
    main()
