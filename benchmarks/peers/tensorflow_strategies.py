"""The training of benchmarks/strategies.cc under TensorFlow's strategies: a custom loop with strategy.run and reduce, as its
guide has it, in a tf.function. Prints {"version": …, "losses": […], "ms": …}."""

import argparse
import json
import os
import statistics
import sys
import time

import numpy as np

from tensorflow_mlp import loss_of_each

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", choices=["mirrored", "multi_worker"], required=True)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--data", required=True)
    options = parser.parse_args()
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * options.devices)
    if options.strategy == "mirrored":
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(options.devices)])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    data = np.load(options.data)
    batch = data["images"].shape[1]
    with strategy.scope():
        weights = [tf.Variable(data[f"{kind}{layer}"]) for layer in range(3) for kind in "wb"]

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of_each(tf, weights, x, y), global_batch_size=batch)
        gradients = tape.gradient(loss, weights)
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        for weight, gradient in zip(weights, gradients):
            weight.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    options_of_data = tf.data.Options()
    options_of_data.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    examples = (data["images"].reshape(-1, 784), data["labels"].reshape(-1))
    dataset = tf.data.Dataset.from_tensor_slices(examples).batch(batch).repeat().with_options(options_of_data)
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    losses, ms = [], []
    for _ in range(options.steps):
        x, y = next(batches)
        start = time.perf_counter()
        losses.append(float(step(x, y)))
        ms.append(1e3 * (time.perf_counter() - start))
    if os.environ.get("TF_CONFIG") is None or json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        print(json.dumps({"version": f"TensorFlow {tf.__version__}", "losses": losses, "ms": statistics.median(ms)}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
