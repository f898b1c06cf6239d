"""The first convolution of a ResNet, computed on 2x2 blocks of pixels."""

from typing import Any, Dict

import tensorflow as tf


@tf.keras.utils.register_keras_serializable("tpuloop")
class SpaceToDepthConv2D(tf.keras.layers.Layer):
    """A 7x7 convolution of stride 2, padded by 3 on each side and without a bias, as a 4x4 one of stride 1.

    A TPU multiplies with 128 channels at a time, of which an image fills 3. Moving each 2x2 block of pixels into the
    channels makes that 12, and a quarter of the positions. The variable is the kernel of the plain convolution, of shape
    [7, 7, channels, filters], and the result is its result, to rounding. Known from MLPerf: Kumar et al.,
    arXiv:1909.09756.

    Args:
      filters: the output's channels.
      kernel_initializer: as in `tf.keras.layers.Conv2D`.

    Takes [batch, height, width, channels] with even sizes and gives [batch, height / 2, width / 2, filters].
    """

    def __init__(self, filters: int, *, kernel_initializer: Any = "glorot_uniform", **kwargs: Any):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_initializer = tf.keras.initializers.get(kernel_initializer)

    def build(self, input_shape: Any) -> None:
        channels = int(input_shape[-1])
        self.kernel = self.add_weight("kernel", [7, 7, channels, self.filters], initializer=self.kernel_initializer)
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        # Output i sees pixels 2i - 3 to 2i + 3. With a zero before them these are the blocks i - 2 to i + 1.
        kernel = tf.pad(self.kernel, [[1, 0], [1, 0], [0, 0], [0, 0]])
        channels = kernel.shape[2]
        kernel = tf.reshape(kernel, [4, 2, 4, 2, channels, self.filters])
        kernel = tf.reshape(tf.transpose(kernel, [0, 2, 1, 3, 4, 5]), [4, 4, 4 * channels, self.filters])
        # A pad of its own: explicit padding in the convolution is slower on CPUs.
        blocks = tf.pad(tf.nn.space_to_depth(inputs, 2), [[0, 0], [2, 1], [2, 1], [0, 0]])
        return tf.nn.conv2d(blocks, kernel, strides=1, padding="VALID")

    def get_config(self) -> Dict[str, Any]:
        initializer = tf.keras.initializers.serialize(self.kernel_initializer)
        return {**super().get_config(), "filters": self.filters, "kernel_initializer": initializer}
