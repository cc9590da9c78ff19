"""The works of gpu_step in PyTorch: eager, and by torch.compile."""

import gpt_work
import gpu_turns
import torch_gpt
import torch_step
import work


def main():
    import torch

    def to_gpu(array):
        return torch.from_numpy(array).pin_memory()

    def training(xs, ys, loss_of, adam):
        done = 0

        def step():
            nonlocal done
            x, y = (v[done % work.BATCHES].to("cuda", non_blocking=True) for v in (xs, ys))
            done += 1
            adam.zero_grad(set_to_none=True)
            loss = loss_of(x, y.long())
            loss.backward()
            adam.step()
            return loss.item()

        return step

    def mlp(batch, compiled):
        weights, images, labels = work.data_of(batch)
        model = torch_step.make_model(weights).cuda()
        loss_of = lambda x, y: torch.nn.functional.cross_entropy(model(x), y)
        if compiled:
            loss_of = torch.compile(loss_of, mode="reduce-overhead")
        return training(to_gpu(images), to_gpu(labels), loss_of, torch_gpt.adam_of(model.parameters()))

    def gpt():
        weights = torch_gpt.mapped(gpt_work.weights(), lambda w: torch.from_numpy(w).cuda().requires_grad_())

        def loss_of(x, y):
            return torch_gpt.loss_of(torch_gpt.mapped(weights, lambda w: w.to(torch.bfloat16)), x, y)

        tokens, targets = (to_gpu(xs) for xs in gpt_work.data())
        return training(tokens, targets, torch.compile(loss_of), torch_gpt.adam_of(torch_gpt.leaves(weights)))

    gpt_work.use_gpt2(gpu_turns.GPT_BATCH)
    works = {}
    for batch in gpu_turns.MLP_BATCHES:
        works[f"mlp/{batch}"] = mlp(batch, compiled=False)
        works[f"mlp/{batch}/compiled"] = mlp(batch, compiled=True)
    works[f"gpt/{gpu_turns.GPT_BATCH}"] = gpt()
    gpu_turns.serve(f"PyTorch {torch.__version__}", works)


if __name__ == "__main__":
    main()
