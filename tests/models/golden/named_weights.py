"""Weights that are a function of their name, so that nobody has to store them. Needs NumPy only.

The scripts that write golden files give these to the independent implementation, and the tests to ours.
"""

import zlib

import numpy as np


def named_weight(name, shape):
    """The float32 value of a tensor of PyTorch's name and shape, as convolutional networks have them.

    None is what a network starts from: each scale, shift and statistic differs from channel to channel.
    """
    values = np.random.RandomState(zlib.crc32(name.encode())).uniform(-1, 1, size=shape)
    if len(shape) == 4:
        values *= np.sqrt(6 / (shape[0] * shape[2] * shape[3]))  # Variance 2 / (outputs x kernel area).
    elif len(shape) == 2:
        values *= np.sqrt(3 / shape[1])  # Variance 1 / inputs.
    elif name.endswith("running_var"):
        values = 1 + values / 2
    elif name.endswith("weight"):
        values = 0.8 * (1 + values / 2)
    else:
        values *= 0.2
    if name.endswith(("bn2.weight", "bn3.weight")):
        # The last of a block. What a deep network adds up is kept small, or rounding moves gradients by a percent.
        values *= 0.4
    return values.astype(np.float32)


def named_images(name, shape):
    """float32 pixels of about -1.7 to 1.7, of variance 1."""
    values = np.random.RandomState(zlib.crc32(name.encode())).uniform(-1, 1, size=shape)
    return (values * np.sqrt(3)).astype(np.float32)
