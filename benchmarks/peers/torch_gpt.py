"""The step of gpt_work.py in PyTorch on one device, the faster of 1 and 2 threads."""

import gpt_work
import work


def main():
    gpt_work.parse(["batch=1"])
    import torch
    import torch.nn.functional as F

    tokens, targets = (torch.from_numpy(xs).long() for xs in gpt_work.data())

    def leaves(tree):
        if isinstance(tree, dict):
            return [leaf for value in tree.values() for leaf in leaves(value)]
        return [leaf for value in tree for leaf in leaves(value)] if isinstance(tree, list) else [tree]

    def to_torch(tree):
        if isinstance(tree, dict):
            return {name: to_torch(value) for name, value in tree.items()}
        return [to_torch(value) for value in tree] if isinstance(tree, list) else torch.from_numpy(tree).requires_grad_()

    def normed(x, norm):
        return F.layer_norm(x, (gpt_work.DIM,), norm["scale"], norm["offset"], 1e-5)

    def attention(x, w):
        b, s, d = x.shape
        q, k, v = ((x @ w[n]).view(b, s, gpt_work.HEADS, -1).transpose(1, 2) for n in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(b, s, d) @ w["out"]

    def loss_of(weights, x, y):
        x = F.embedding(x, weights["embedding"]) + weights["positions"]
        for w in weights["blocks"]:
            x = x + attention(normed(x, w["norm1"]), w)
            h = F.gelu(normed(x, w["norm2"]) @ w["in"] + w["in_bias"], approximate="tanh")
            x = x + h @ w["down"] + w["down_bias"]
        logits = normed(x, weights["norm"]) @ weights["head"]
        return F.cross_entropy(logits.view(-1, gpt_work.VOCABULARY), y.reshape(-1))

    def measure(threads):
        torch.set_num_threads(threads)
        weights = to_torch(gpt_work.weights())
        adam = torch.optim.Adam(
            leaves(weights), lr=work.LEARNING_RATE, betas=(work.BETA1, work.BETA2), eps=work.EPSILON, fused=True
        )
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
