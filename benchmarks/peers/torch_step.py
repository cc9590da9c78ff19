"""The step of work.py in PyTorch: on one device, the faster of 1 and 2 threads; data parallel over 2 or 8 processes with
gloo, by DistributedDataParallel or, with --dtensor, by DTensor.
"""

import os
import sys

import work


def make_model(weights):
    import torch

    layers = []
    for layer in range(3):
        linear = torch.nn.Linear(work.SIZES[layer], work.SIZES[layer + 1])
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weights[2 * layer].T.copy()))
            linear.bias.copy_(torch.from_numpy(weights[2 * layer + 1]))
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def make_cnn(weights):
    """Images are [n,c,h,w] here, and so are flattened in another order."""
    import torch

    conv = torch.nn.Conv2d(1, 32, 3)
    dense1, dense2 = torch.nn.Linear(13 * 13 * 32, 64), torch.nn.Linear(64, 10)
    kernel = torch.from_numpy(weights[2]).reshape(13, 13, 32, 64).permute(3, 2, 0, 1).reshape(64, -1)
    with torch.no_grad():
        conv.weight.copy_(torch.from_numpy(weights[0]).permute(3, 2, 0, 1))
        dense1.weight.copy_(kernel)
        dense2.weight.copy_(torch.from_numpy(weights[4].T.copy()))
        for layer, bias in zip((conv, dense1, dense2), weights[1::2]):
            layer.bias.copy_(torch.from_numpy(bias))
    return torch.nn.Sequential(
        conv, torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), dense1, torch.nn.ReLU(), dense2
    )


def optimizer_of(model, fused, is_cnn):
    import torch

    if is_cnn:
        return torch.optim.SGD(model.parameters(), lr=work.CNN_LEARNING_RATE)
    kind = {"fused": True} if fused else {"foreach": True}
    betas = (work.BETA1, work.BETA2)
    return torch.optim.Adam(model.parameters(), lr=work.LEARNING_RATE, betas=betas, eps=work.EPSILON, **kind)


def make_run(model, xs, ys, fused, is_cnn=False):
    import torch

    optimizer = optimizer_of(model, fused, is_cnn)
    done = 0

    def run(steps):
        nonlocal done
        for _ in range(steps):
            optimizer.zero_grad()
            x, y = xs[done % work.BATCHES], ys[done % work.BATCHES]
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            done += 1
        return loss

    return run


def on_one_device(batch, is_cnn):
    import torch

    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        weights, images, labels = work.data_of(batch, "cnn" if is_cnn else "mlp")
        xs, ys = torch.from_numpy(images), torch.from_numpy(labels).long()
        if is_cnn:
            run = make_run(make_cnn(weights), xs.permute(0, 1, 4, 2, 3).contiguous(), ys, fused=True, is_cnn=True)
        else:
            run = make_run(make_model(weights), xs, ys, fused=True)
        results.append(work.time_steps(lambda n: run(n).item(), batch))
    return min(results, key=lambda result: result["ms"])


# One of the processes; the loss is the mean over all.
def in_processes(rank, options, port, results):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.processes)
    for batch in options.batch:
        weights, images, labels = work.data_of(batch)
        part = slice(rank * batch // options.processes, (rank + 1) * batch // options.processes)
        xs, ys = torch.from_numpy(images[:, part].copy()), torch.from_numpy(labels[:, part].copy()).long()
        if options.dtensor:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import DTensor, Shard, distribute_module

            mesh = init_device_mesh("cpu", (options.processes,))
            model = distribute_module(make_model(weights), mesh)
            xs, ys = ([DTensor.from_local(v, mesh, [Shard(0)]) for v in values] for values in (xs, ys))
            run = make_run(model, xs, ys, fused=False)

            def mean(loss):
                return loss.full_tensor().item()

        else:
            run = make_run(torch.nn.parallel.DistributedDataParallel(make_model(weights)), xs, ys, fused=True)

            def mean(loss):
                total = loss.detach().clone()
                dist.all_reduce(total)
                return total.item() / options.processes

        # All make as many steps: how many, rank 0 says.
        def run_all(steps):
            dist.broadcast(torch.tensor([steps]), 0)
            return mean(run(steps))

        if rank == 0:
            results[batch] = work.time_steps(run_all, batch)
            dist.broadcast(torch.tensor([0]), 0)
        else:
            steps = torch.tensor([1])
            while True:
                dist.broadcast(steps, 0)
                if steps.item() == 0:
                    break
                mean(run(steps.item()))
    dist.destroy_process_group()


def main():
    by_dtensor = "--dtensor" in sys.argv
    if by_dtensor:
        sys.argv.remove("--dtensor")
    options = work.parse(["batch=1", "batch=2", "batch=8"])
    options.processes = int(options.mesh.removeprefix("batch="))
    options.dtensor = by_dtensor
    import torch

    if options.mesh == "batch=1":
        results = {batch: on_one_device(batch, options.model == "cnn") for batch in options.batch}
    else:
        import socket

        import torch.multiprocessing as mp

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = mp.Manager().dict()
        mp.spawn(in_processes, args=(options, port, shared), nprocs=options.processes)
        results = dict(shared)
    work.report(f"PyTorch {torch.__version__}", results)


if __name__ == "__main__":
    main()
