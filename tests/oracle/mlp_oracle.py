#!/usr/bin/env python3
"""Trains the MNIST example's network with NumPy, independently of meshwork, as a reference.

Dense layers with ReLU between them (as many, and as wide, as the weights say), sparse softmax
cross-entropy averaged over the batch, gradients by hand, and Adam as in Algorithm 1 of Kingma and Ba
(ICLR 2015). Weights come from and go to safetensors files: dense1/kernel [in,out], dense1/bias [out],
dense2/kernel, ... See README.md beside this file.

Exit codes: 0, or 2 where an argument or a file is wrong.
"""

import argparse
import json
import os
import sys

import numpy as np

from tensor_file import FileError, read_idx, read_safetensors, write_safetensors

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Mlp:
    """The weights, Adam's moments, and one training step. All arrays have one dtype."""

    def __init__(self, tensors, dtype, learning_rate):
        self.dtype = np.dtype(dtype)
        self.learning_rate = learning_rate
        self.names = []
        while f"dense{len(self.names) // 2 + 1}/kernel" in tensors:
            layer = f"dense{len(self.names) // 2 + 1}"
            self.names += [f"{layer}/kernel", f"{layer}/bias"]
        if not self.names:
            raise FileError("the weights have no dense1/kernel")
        missing = [name for name in self.names if name not in tensors]
        if missing:
            raise FileError(f"the weights have no {missing[0]}")
        self.weights = {name: tensors[name].astype(self.dtype) for name in self.names}
        self._check_shapes()
        # Moments and the number of steps taken, where the file is the state of an earlier run.
        zeros = {name: np.zeros_like(weight) for name, weight in self.weights.items()}
        self.m = {name: tensors.get(f"adam_m/{name}", zeros[name]).astype(self.dtype) for name in self.names}
        self.v = {name: tensors.get(f"adam_v/{name}", zeros[name]).astype(self.dtype) for name in self.names}
        self.steps = int(tensors.get("adam_step", 0))

    def _check_shapes(self):
        previous = None
        for kernel, bias in self._layers():
            if kernel.ndim != 2 or bias.shape != kernel.shape[1:] or previous not in (None, kernel.shape[0]):
                raise FileError(
                    f"a kernel {kernel.shape} and bias {bias.shape} do not fit, or not the layer before"
                )
            previous = kernel.shape[1]

    def _layers(self):
        return [(self.weights[k], self.weights[b]) for k, b in zip(self.names[::2], self.names[1::2])]

    def gradients(self, x, labels):
        """The loss on x [b,in] and labels [b], and its gradient by each weight."""
        layers = self._layers()
        inputs = []  # of each layer
        h = x
        for i, (kernel, bias) in enumerate(layers):
            inputs.append(h)
            h = h @ kernel + bias
            if i + 1 < len(layers):
                h = np.where(h > 0, h, self.dtype.type(0))

        rows = np.arange(len(labels))
        shifted = h - h.max(axis=1, keepdims=True)
        log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        loss = -log_probability[rows, labels].mean()

        d = np.exp(log_probability)
        d[rows, labels] -= 1
        d /= self.dtype.type(len(labels))
        gradients = {}
        for i in reversed(range(len(layers))):
            gradients[self.names[2 * i]] = inputs[i].T @ d
            gradients[self.names[2 * i + 1]] = d.sum(axis=0)
            if i > 0:
                d = np.where(inputs[i] > 0, d @ layers[i][0].T, self.dtype.type(0))
        return loss, gradients

    def step(self, x, labels):
        """One step of Adam; returns the loss before it."""
        loss, gradients = self.gradients(x, labels)
        self.steps += 1
        scalar = self.dtype.type
        for name in self.names:
            g = gradients[name]
            self.m[name] = scalar(BETA1) * self.m[name] + scalar(1 - BETA1) * g
            self.v[name] = scalar(BETA2) * self.v[name] + scalar(1 - BETA2) * g * g
            m_hat = self.m[name] / scalar(1 - BETA1**self.steps)
            v_hat = self.v[name] / scalar(1 - BETA2**self.steps)
            self.weights[name] = self.weights[name] - scalar(self.learning_rate) * m_hat / (
                np.sqrt(v_hat) + scalar(EPSILON)
            )
        return loss

    def state(self):
        """Weights, moments and the number of steps, as tensors by name."""
        return {
            **self.weights,
            **{f"adam_m/{name}": m for name, m in self.m.items()},
            **{f"adam_v/{name}": v for name, v in self.v.items()},
            "adam_step": np.int64(self.steps),
        }


def find_data_file(folder, name):
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            return path
    raise FileError(f"{folder} has neither {name} nor {name}.gz")


def load_examples(folder, dtype):
    """The training images [n,784] of `dtype`, pixel / 255, and the labels [n]."""
    images = read_idx(find_data_file(folder, "train-images-idx3-ubyte"))
    labels = read_idx(find_data_file(folder, "train-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise FileError(f"{folder}: images {images.shape} and labels {labels.shape} do not fit")
    return images.reshape(len(images), -1).astype(dtype) / np.dtype(dtype).type(255), labels.astype(np.int64)


def read_orders(path, num_examples):
    """One epoch per line: the indices of its examples, in order."""
    with open(path, encoding="utf-8") as file:
        try:
            orders = [np.array(line.split(), dtype=np.int64) for line in file if line.strip()]
        except ValueError as error:
            raise FileError(f"{path}: {error}") from error
    if not orders:
        raise FileError(f"{path}: no order in it")
    for order in orders:
        if order.min() < 0 or order.max() >= num_examples:
            raise FileError(
                f"{path}: index {order.min()} or {order.max()} lies outside of {num_examples} examples"
            )
    return orders


def batches(orders, batch_size):
    """Consecutive examples, epoch after epoch and over again; the last batch of an epoch may be short."""
    while True:
        for order in orders:
            for begin in range(0, len(order), batch_size):
                yield order[begin : begin + batch_size]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights", required=True, help="initial weights, or a state that --save-state wrote"
    )
    parser.add_argument("--data-dir", required=True, help="folder of the MNIST files, gzipped or not")
    parser.add_argument("--dtype", choices=["f32", "f64"], default="f64")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--examples", type=int, help="use only the first so many (default: all)")
    parser.add_argument(
        "--order", help="file of one line per epoch: indices of examples (default: file order)"
    )
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--losses", help="JSON file to write: the loss of each step, before its update")
    parser.add_argument("--save", help="safetensors file to write: the weights after the last step")
    parser.add_argument("--save-state", help="the same with Adam's state: adam_m/..., adam_v/..., adam_step")
    parser.add_argument(
        "--save-each", metavar="DIR", help="write the state before every step n to DIR/n.safetensors"
    )
    arguments = parser.parse_args()
    if (
        arguments.batch_size < 1
        or arguments.steps < 0
        or (arguments.examples is not None and arguments.examples < 1)
    ):
        parser.error("--batch-size and --examples must be at least 1, --steps at least 0")
    return arguments


def main():
    arguments = parse_arguments()
    dtype = {"f32": np.float32, "f64": np.float64}[arguments.dtype]
    mlp = Mlp(read_safetensors(arguments.weights), dtype, arguments.lr)
    images, labels = load_examples(arguments.data_dir, dtype)
    images, labels = images[: arguments.examples], labels[: arguments.examples]
    if images.shape[1] != len(mlp.weights["dense1/kernel"]):
        raise FileError(
            f"images have {images.shape[1]} pixels, dense1/kernel {len(mlp.weights['dense1/kernel'])} rows"
        )
    orders = read_orders(arguments.order, len(images)) if arguments.order else [np.arange(len(images))]

    def save_each(step):
        if arguments.save_each:
            os.makedirs(arguments.save_each, exist_ok=True)
            write_safetensors(os.path.join(arguments.save_each, f"{step}.safetensors"), mlp.state())

    losses = []
    stream = batches(orders, arguments.batch_size)
    for step in range(arguments.steps):
        save_each(step)
        chosen = next(stream)
        losses.append(float(mlp.step(images[chosen], labels[chosen])))
        print(f"step {step}: loss {losses[-1]:.17g}")
    save_each(arguments.steps)
    if arguments.losses:
        with open(arguments.losses, "w", encoding="utf-8") as file:
            json.dump(losses, file)
    if arguments.save:
        write_safetensors(arguments.save, mlp.weights)
    if arguments.save_state:
        write_safetensors(arguments.save_state, mlp.state())


if __name__ == "__main__":
    try:
        main()
    except (FileError, OSError) as error:
        print(f"mlp_oracle: {error}", file=sys.stderr)
        sys.exit(2)
