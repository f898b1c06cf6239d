"""How fast this machine multiplies matrices: what a share of its peak is a share of."""

import time

import tensorflow as tf

_SIZE = 2048


def matmul_peak(*, repeats: int = 7) -> float:
    """Operations a second of the fastest of several float32 products of two square matrices; 2 per multiply-add."""
    factor = tf.random.stateless_normal([_SIZE, _SIZE], [1, 2])

    @tf.function
    def product() -> tf.Tensor:
        return tf.linalg.matmul(factor, factor)[0, 0]

    product()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        product().numpy()
        seconds.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / min(seconds)
