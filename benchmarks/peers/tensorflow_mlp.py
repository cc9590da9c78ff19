"""The MNIST MLP of work.py in TensorFlow."""


def loss_of_each(tf, weights, x, y):
    """weights: kernel and bias of each layer; x: [b,784], y: [b] -> the cross-entropy of each example, [b]."""
    h = x
    for layer in range(3):
        h = tf.matmul(h, weights[2 * layer]) + weights[2 * layer + 1]
        if layer < 2:
            h = tf.nn.relu(h)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h)
