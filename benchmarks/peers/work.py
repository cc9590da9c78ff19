"""The work that all peers do, and how it is timed.

A training step on images of 28×28, with sparse softmax cross-entropy averaged over the batch, f32, from the same weights
on the same random data: of the MNIST MLP (784-700-500-10 with ReLU, Adam with learning rate 1e-3), or with --model cnn of
a convolutional network (32 filters of 3×3, ReLU, the largest of each 2×2, 64, ReLU, 10, SGD with learning rate 0.1). A
peer's script is

    work.main(make_step, meshes)

where make_step(mesh, batch, weights, images, labels) returns `run`: run(n) makes n steps, each on the next of the
batches of the data, waits for the last and returns its loss. The script prints one line of JSON, {"version": …,
"batches": {"128": {"ms": …, "loss": …}, …}}: milliseconds per step, the median of its rounds, and the loss of step 5.
"""

import argparse
import json
import statistics
import time

import numpy as np

SIZES = (784, 700, 500, 10)
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
CNN_SHAPES = ((3, 3, 1, 32), (13 * 13 * 32, 64), (64, 10))  # of the kernels
CNN_LEARNING_RATE = 0.1
BATCHES = 8  # of the data, which all steps walk over again and again
WARM_UP = 5
EXAMPLES_PER_ROUND, FEWEST_STEPS = 2560, 3
ROUNDS, MOST_SECONDS = 5, 8.0


def data_of(batch, model="mlp", sizes=SIZES):
    """Weights (kernel and bias of each layer), images [BATCHES,batch,784] or [BATCHES,batch,28,28,1], labels
    [BATCHES,batch]. `sizes`: of the MLP's layers, pixels and classes among them."""
    random = np.random.default_rng(1)
    weights = []
    for shape in zip(sizes, sizes[1:]) if model == "mlp" else CNN_SHAPES:
        fan_out = shape[-1]
        limit = np.sqrt(6 / (np.prod(shape[:-1]) + fan_out))
        weights.append(random.uniform(-limit, limit, shape).astype(np.float32))
        weights.append(np.zeros(fan_out, np.float32))
    images = random.random((BATCHES, batch, *((SIZES[0],) if model == "mlp" else (28, 28, 1))), np.float32)
    labels = random.integers(0, SIZES[-1], (BATCHES, batch), np.int32)
    return weights, images, labels


def time_steps(run, batch):
    """As time_rounds, in rounds of about as many examples for every batch."""
    return time_rounds(run, max(FEWEST_STEPS, EXAMPLES_PER_ROUND // batch), WARM_UP, MOST_SECONDS)


def time_rounds(run, steps, warm_up, most_seconds):
    """Milliseconds per step, the median of the rounds, and the loss of the last step of the warm-up."""
    loss = float(run(warm_up))
    rounds = []
    start = time.perf_counter()
    while not rounds or (len(rounds) < ROUNDS and time.perf_counter() - start < most_seconds):
        run(1)
        begin = time.perf_counter()
        run(steps)
        rounds.append((time.perf_counter() - begin) / steps)
    return {"ms": 1e3 * statistics.median(rounds), "loss": loss}


def parse(meshes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", choices=meshes, required=True)
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--batch", default="128,1024,4096", help="a list with commas")
    options = parser.parse_args()
    options.batch = [int(batch) for batch in options.batch.split(",")]
    return options


def report(version, results):
    print(json.dumps({"version": version, "batches": results}), flush=True)
