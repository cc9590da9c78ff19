"""The step of work.py in TensorFlow DTensor, data parallel on 8 virtual CPU devices: a tf.function over DVariables."""

import os

import work
from tensorflow_mlp import loss_of_each

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
DEVICES = 8


def main():
    options = work.parse(["batch=8"])
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)
    mesh = dtensor.create_mesh([("batch", DEVICES)], devices=[f"CPU:{i}" for i in range(DEVICES)])

    def replicated(value):
        layout = dtensor.Layout.replicated(mesh, rank=value.ndim)
        return dtensor.DVariable(dtensor.copy_to_mesh(tf.constant(value), layout))

    def sharded(value):
        layout = dtensor.Layout.batch_sharded(mesh, "batch", rank=value.ndim)
        return dtensor.pack([tf.constant(part) for part in work.np.split(value, DEVICES)], layout)

    def make_run(batch):
        weights, images, labels = work.data_of(batch)
        w = [replicated(value) for value in weights]
        m, v = ([replicated(work.np.zeros_like(value)) for value in weights] for _ in "mv")
        t = replicated(work.np.zeros((), work.np.float32))
        xs, ys = [sharded(x) for x in images], [sharded(y) for y in labels]

        @tf.function
        def step(x, y):
            read = [value.read_value() for value in w]
            with tf.GradientTape() as tape:
                tape.watch(read)
                loss = tf.reduce_mean(loss_of_each(tf, read, x, y))
            gradients = tape.gradient(loss, read)
            now = t.read_value() + 1.0
            rate = work.LEARNING_RATE / (1 - work.BETA1**now)
            unbias = tf.math.rsqrt(1 - work.BETA2**now)
            t.assign(now)
            for i, g in enumerate(gradients):
                new_m = work.BETA1 * m[i].read_value() + (1 - work.BETA1) * g
                new_v = work.BETA2 * v[i].read_value() + (1 - work.BETA2) * g * g
                m[i].assign(new_m)
                v[i].assign(new_v)
                w[i].assign(read[i] - rate * new_m / (tf.sqrt(new_v) * unbias + work.EPSILON))
            return loss

        done = 0

        def run(steps):
            nonlocal done
            for _ in range(steps):
                loss = step(xs[done % work.BATCHES], ys[done % work.BATCHES])
                done += 1
            return dtensor.unpack(loss)[0].numpy()

        return run

    results = {batch: work.time_steps(make_run(batch), batch) for batch in options.batch}
    work.report(f"TensorFlow {tf.__version__}", results)


if __name__ == "__main__":
    main()
