"""The work that all peers do, and how it is timed.

A training step of the MNIST MLP: 784-700-500-10 with ReLU, sparse softmax cross-entropy averaged over the batch, Adam
with learning rate 1e-3; f32, from the same weights on the same random data. A peer's script is

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
BATCHES = 8  # of the data, which all steps walk over again and again
WARM_UP = 5
EXAMPLES_PER_ROUND, FEWEST_STEPS = 2560, 3
ROUNDS, MOST_SECONDS = 5, 8.0


def data_of(batch):
    """Weights (kernel and bias of each layer), images [BATCHES,batch,784] and labels [BATCHES,batch]."""
    random = np.random.default_rng(1)
    weights = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:]):
        limit = np.sqrt(6 / (fan_in + fan_out))
        weights.append(random.uniform(-limit, limit, (fan_in, fan_out)).astype(np.float32))
        weights.append(np.zeros(fan_out, np.float32))
    images = random.random((BATCHES, batch, SIZES[0]), np.float32)
    labels = random.integers(0, SIZES[-1], (BATCHES, batch), np.int32)
    return weights, images, labels


def time_steps(run, batch):
    """Milliseconds per step, the median of the rounds, and the loss of the last step of the warm-up."""
    loss = float(run(WARM_UP))
    steps = max(FEWEST_STEPS, EXAMPLES_PER_ROUND // batch)
    rounds = []
    start = time.perf_counter()
    while not rounds or (len(rounds) < ROUNDS and time.perf_counter() - start < MOST_SECONDS):
        run(1)
        begin = time.perf_counter()
        run(steps)
        rounds.append((time.perf_counter() - begin) / steps)
    return {"ms": 1e3 * statistics.median(rounds), "loss": loss}


def parse(meshes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", choices=meshes, required=True)
    parser.add_argument("--batch", default="128,1024,4096", help="a list with commas")
    options = parser.parse_args()
    options.batch = [int(batch) for batch in options.batch.split(",")]
    return options


def report(version, results):
    print(json.dumps({"version": version, "batches": results}), flush=True)
