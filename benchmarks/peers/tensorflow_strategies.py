"""The training of benchmarks/strategies.cc under TensorFlow's strategies: a custom loop with strategy.run and reduce, as its
guide has it, in a tf.function. Under ParameterServerStrategy, with 2 workers and 1 server that it starts itself, a
coordinator schedules the steps one after the other. Prints {"version": …, "losses": […], "ms": …}."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import numpy as np

from tensorflow_mlp import loss_of_each

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


WORKERS, SERVERS = 2, 1


def start_cluster():
    """Starts workers and servers, sets this process's TF_CONFIG, and returns their processes."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(1 + WORKERS + SERVERS)]
    ports = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    cluster = {"chief": ports[:1], "worker": ports[1 : 1 + WORKERS], "ps": ports[1 + WORKERS :]}
    started = []
    for role in ("worker", "ps"):
        for index in range(len(cluster[role])):
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            started.append(subprocess.Popen([sys.executable, __file__, "--serve"], env={**os.environ, "TF_CONFIG": config}))
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
    return started


def serve():
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()


def strategy_of(tf, name, devices):
    if name == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "parameter_server":
        return tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])


def train(options):
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    if options.strategy != "parameter_server":
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * options.devices)
    strategy = strategy_of(tf, options.strategy, options.devices)
    data = np.load(options.data)
    batch = data["images"].shape[1]
    with strategy.scope():
        weights = [tf.Variable(data[f"{kind}{layer}"]) for layer in range(sum(name[0] == "w" for name in data.files)) for kind in "wb"]

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of_each(tf, weights, x, y), global_batch_size=batch)
        gradients = tape.gradient(loss, weights)
        if options.strategy != "parameter_server":
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
    if options.strategy == "parameter_server":
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        batches = iter(dataset)
    else:
        batches = iter(strategy.experimental_distribute_dataset(dataset))
    losses, ms = [], []
    for _ in range(options.steps):
        x, y = next(batches)
        start = time.perf_counter()
        if options.strategy == "parameter_server":
            losses.append(float(coordinator.schedule(step, args=(x, y)).fetch()))
        else:
            losses.append(float(step(x, y)))
        ms.append(1e3 * (time.perf_counter() - start))
    if options.strategy != "multi_worker" or json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        print(json.dumps({"version": f"TensorFlow {tf.__version__}", "losses": losses, "ms": statistics.median(ms)}))
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", choices=["mirrored", "multi_worker", "parameter_server"])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--data")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    started = start_cluster() if options.strategy == "parameter_server" else []
    try:
        train(options)
    finally:
        for process in started:
            process.kill()


if __name__ == "__main__":
    main()
