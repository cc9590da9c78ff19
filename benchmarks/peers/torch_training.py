"""How gpu_step's peers train in PyTorch: batches in pinned memory, and a step that copies one of them, trains on it and
brings the loss to the host.
"""

import torch

BATCHES = 8  # of the data, which all steps walk over again and again


def batches_of(make, device):
    """BATCHES tuples of tensors of the host."""
    torch.manual_seed(2)

    def pinned(tensor):
        return tensor.pin_memory() if device == "cuda" else tensor

    return [tuple(pinned(tensor) for tensor in make()) for _ in range(BATCHES)]


def adam_of(parameters, learning_rate):
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def step_of(loss_of, optimizers, batches, precision, device):
    done = 0

    def step():
        nonlocal done
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        batch = [tensor.to(device, non_blocking=True) for tensor in batches[done % BATCHES]]
        done += 1
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_of(*batch)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.item()

    return step
