"""Residual networks: He et al., arXiv:1512.03385."""

from typing import Sequence

import tensorflow as tf

from .checks import check_choice
from .resnet_layout import Convolution, ResNetLayout
from .space_to_depth import SpaceToDepthConv2D

_NORMS = {
    "batch": tf.keras.layers.BatchNormalization,
    "sync_batch": tf.keras.layers.experimental.SyncBatchNormalization,
}


def resnet(
    *,
    input_shape: Sequence[int],
    num_classes: int,
    depth: int = 50,
    stem: str = "imagenet",
    stride_in: str = "3x3",
    norm: str = "batch",
    zero_init_gamma: bool = True,
) -> tf.keras.Model:
    """A residual network with torchvision's padding, normalisation and initial convolutions.

    Convolutions start from a normal distribution, not truncated, of variance 2 / (kernel area x output channels) (He et
    al., arXiv:1502.01852). Moving averages of the normalisation keep 0.9 of their value a step; epsilon is 1e-5. What
    else there is to start from is not torchvision's but that of Goyal et al., arXiv:1706.02677, section 5.1: logits
    from a normal distribution of standard deviation 0.01, and each block's last scale from 0.

    Args:
      input_shape: height, width and channels of an image, in pixels.
      num_classes: width of the output.
      depth: 18 or 34, of blocks of two 3x3 convolutions, or 50, 101 or 152, of blocks of 1x1, 3x3 and 1x1.
      stem: "imagenet" is a 7x7 convolution and a pooling, both of stride 2; "space_to_depth" computes the same from the
        same weights in a way that suits a TPU, for even heights and widths; "small" is a 3x3 convolution of stride 1,
        for images of about 32 pixels or less.
      stride_in: which convolution of a block of three halves the image: "3x3" (called v1.5, and what is usually meant
        by ResNet-50) or the first "1x1" (the paper's, and Keras Applications'). Blocks of two have no such choice.
      norm: "batch", or "sync_batch" for statistics over all replicas.
      zero_init_gamma: start the last scale of each block from 0, so that the block starts as its shortcut;
        else from 1, as torchvision does by default.

    Returns:
      A model from [batch, *input_shape] to float32 logits of shape [batch, num_classes].

    Raises:
      ValueError: for a value that makes no network.
    """
    check_choice("norm", norm, _NORMS)
    layout = ResNetLayout(input_shape=input_shape, num_classes=num_classes, depth=depth, stem=stem, stride_in=stride_in)

    def normalised(features: tf.Tensor, convolution: Convolution, gamma: str = "ones") -> tf.Tensor:
        name = convolution.name.replace("conv", "norm")
        return _NORMS[norm](momentum=0.9, epsilon=1e-5, gamma_initializer=gamma, name=name)(features)

    inputs = tf.keras.Input(shape=tuple(input_shape), name="inputs")
    first = layout.first()
    if stem == "space_to_depth":
        features = SpaceToDepthConv2D(first.outputs, kernel_initializer=_he_normal(), name=first.name)(inputs)
    else:
        features = _convolved(inputs, first)
    features = normalised(features, first)
    features = tf.keras.layers.ReLU(name="stem_relu")(features)
    if stem != "small":
        # Nothing is below 0 here, so that padding with zeros changes no maximum.
        features = tf.keras.layers.ZeroPadding2D(1, name="stem_pool_pad")(features)
        features = tf.keras.layers.MaxPool2D(3, strides=2, name="stem_pool")(features)

    for block in layout.blocks():
        shortcut = features
        if block.shortcut is not None:
            shortcut = normalised(_convolved(features, block.shortcut), block.shortcut)
        for number, convolution in enumerate(block.convolutions[:-1], start=1):
            features = normalised(_convolved(features, convolution), convolution)
            features = tf.keras.layers.ReLU(name=f"{block.name}_relu{number}")(features)
        last = block.convolutions[-1]
        features = normalised(_convolved(features, last), last, gamma="zeros" if zero_init_gamma else "ones")
        features = tf.keras.layers.Add(name=f"{block.name}_add")([shortcut, features])
        features = tf.keras.layers.ReLU(name=f"{block.name}_relu")(features)

    # float32 under any precision policy: a mean over many pixels, and a softmax, lose too much in bfloat16.
    features = tf.keras.layers.GlobalAveragePooling2D(dtype="float32", name="pool")(features)
    start = tf.keras.initializers.RandomNormal(stddev=0.01)
    logits = tf.keras.layers.Dense(num_classes, kernel_initializer=start, dtype="float32", name="logits")(features)
    return tf.keras.Model(inputs, logits, name=f"resnet{depth}")


def _convolved(features: tf.Tensor, convolution: Convolution) -> tf.Tensor:
    """The convolution, padded by half its kernel on each side.

    Keras's "same" is that for stride 1 only: with stride 2 and an even size it pads less, and after the image alone.
    """
    padding = "same"
    if convolution.stride > 1 and convolution.kernel > 1:
        # A layer of its own: explicit padding in the convolution is slower on CPUs.
        features = tf.keras.layers.ZeroPadding2D(convolution.kernel // 2, name=f"{convolution.name}_pad")(features)
        padding = "valid"
    return tf.keras.layers.Conv2D(
        convolution.outputs,
        convolution.kernel,
        strides=convolution.stride,
        padding=padding,
        use_bias=False,
        kernel_initializer=_he_normal(),
        name=convolution.name,
    )(features)


def _he_normal() -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.VarianceScaling(2.0, mode="fan_out", distribution="untruncated_normal")
