"""The work of gpt_step's peers: a training step of the transformer of examples/support/gpt.h.

Byte embedding and learned positions; blocks of LayerNorm, causal attention of 8 heads without biases and a residual,
LayerNorm, a feed-forward network of 4 dim hidden units with biases and GELU (tanh) and a residual; a last LayerNorm and
a product to the logits; sparse softmax cross-entropy averaged over all tokens; Adam; f32. A script prints one line of
JSON, {"version": ..., "batches": {"16": {"ms": ..., "loss": ...}}}, as work.py says.
"""

import argparse

import numpy as np
import work

LAYERS, DIM, HEADS, SEQUENCE, VOCABULARY = 4, 256, 8, 128, 256
BATCH = 16
STEPS, WARM_UP, MOST_SECONDS = 5, 3, 20.0


def use(about):
    """Other sizes from now on, by name in small letters."""
    global LAYERS, DIM, HEADS, SEQUENCE, VOCABULARY, BATCH
    LAYERS, DIM, HEADS = about["layers"], about["dim"], about["heads"]
    SEQUENCE, VOCABULARY, BATCH = about["sequence"], about["vocabulary"], about["batch"]


def weights():
    """By name, alike for all peers."""
    random = np.random.default_rng(1)

    def normal(*shape, deviation=0.02):
        return (deviation * random.standard_normal(shape)).astype(np.float32)

    def kernel(inputs, units):
        limit = np.sqrt(6 / (inputs + units))
        return random.uniform(-limit, limit, (inputs, units)).astype(np.float32)

    def norm():
        return {"scale": np.ones(DIM, np.float32), "offset": np.zeros(DIM, np.float32)}

    def block():
        return {
            "norm1": norm(),
            "query": kernel(DIM, DIM),
            "key": kernel(DIM, DIM),
            "value": kernel(DIM, DIM),
            "out": normal(DIM, DIM, deviation=(2 * LAYERS * DIM) ** -0.5),
            "norm2": norm(),
            "in": kernel(DIM, 4 * DIM),
            "in_bias": np.zeros(4 * DIM, np.float32),
            "down": normal(4 * DIM, DIM, deviation=(8 * LAYERS * DIM) ** -0.5),
            "down_bias": np.zeros(DIM, np.float32),
        }

    return {
        "embedding": normal(VOCABULARY, DIM),
        "positions": normal(SEQUENCE, DIM),
        "blocks": [block() for _ in range(LAYERS)],
        "norm": norm(),
        "head": kernel(DIM, VOCABULARY),
    }


def data():
    """Tokens and targets [BATCHES,BATCH,SEQUENCE]."""
    random = np.random.default_rng(2)
    shape = (2, work.BATCHES, BATCH, SEQUENCE)
    return random.integers(0, VOCABULARY, shape, np.int32)


def time_steps(run):
    """As work.time_rounds, in rounds of a few long steps."""
    return work.time_rounds(run, STEPS, WARM_UP, MOST_SECONDS)


def parse(meshes):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mesh", choices=meshes, required=True)
    return parser.parse_args()


def report(version, result):
    work.report(version, {BATCH: result})
