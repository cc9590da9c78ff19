"""An MLP for MNIST in TensorFlow."""


def loss_of_each(tf, weights, x, y):
    """weights: kernel and bias of each layer; x: [b,784], y: [b] -> the cross-entropy of each example, [b]."""
    h = x
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2]):
        h = tf.nn.relu(tf.matmul(h, kernel) + bias)
    h = tf.matmul(h, weights[-2]) + weights[-1]
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h)
