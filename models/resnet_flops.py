"""Floating-point operations of a residual network, in closed form. Pure Python: imports no TensorFlow."""

from .resnet_layout import Convolution, ResNetLayout


def forward_flops(layout: ResNetLayout) -> int:
    """Operations of a forward pass of one example: 2 for each multiply-add of the convolutions and the logits.

    Padding is counted as pixels are, and the stem "space_to_depth" as the 7x7 convolution that it computes.
    """
    height, width, _ = layout.input_shape
    first = layout.first()
    flops = _convolution_flops(first, height, width)
    # The pooling halves as well.
    halved = first.stride if layout.stem == "small" else 2 * first.stride
    height, width = -(-height // halved), -(-width // halved)
    channels = first.outputs
    for block in layout.blocks():
        if block.shortcut is not None:
            flops += _convolution_flops(block.shortcut, height, width)
        for convolution in block.convolutions:
            flops += _convolution_flops(convolution, height, width)
            height, width = -(-height // convolution.stride), -(-width // convolution.stride)
            channels = convolution.outputs
    return flops + 2 * channels * layout.num_classes


def step_flops(layout: ResNetLayout) -> int:
    """Operations of a training step for one example: forward, and the gradients of all weights and activations.

    Each gradient costs what the forward pass of its layer does, and nobody needs that of the image.
    """
    height, width, _ = layout.input_shape
    return 3 * forward_flops(layout) - _convolution_flops(layout.first(), height, width)


def _convolution_flops(convolution: Convolution, height: int, width: int) -> int:
    """Of a convolution over an image of this size."""
    positions = -(-height // convolution.stride) * -(-width // convolution.stride)
    return 2 * positions * convolution.kernel**2 * convolution.inputs * convolution.outputs
