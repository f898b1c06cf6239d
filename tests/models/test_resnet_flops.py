"""FLOPs by hand, as published, and as TensorFlow counts them in our own graph."""

import subprocess
import sys

import pytest
import tensorflow as tf
from tpuloop.models.resnet import resnet
from tpuloop.models.resnet_flops import forward_flops, step_flops
from tpuloop.models.resnet_layout import ResNetLayout

DIGITS = {"input_shape": (8, 8, 1), "num_classes": 10, "depth": 18, "stem": "small"}


def test_a_small_network_by_hand():
    multiply_adds = 64 * 9 * 1 * 64  # 8 x 8 positions, the stem
    multiply_adds += 4 * 64 * 9 * 64 * 64  # two blocks
    # 4 x 4: from 64 to 128 channels, three of 128 to 128, and the shortcut; then 2 x 2 and 1 x 1 likewise.
    multiply_adds += 16 * (9 * 64 * 128 + 3 * 9 * 128 * 128 + 64 * 128)
    multiply_adds += 4 * (9 * 128 * 256 + 3 * 9 * 256 * 256 + 128 * 256)
    multiply_adds += 1 * (9 * 256 * 512 + 3 * 9 * 512 * 512 + 256 * 512)
    multiply_adds += 512 * 10
    assert forward_flops(ResNetLayout(**DIGITS)) == 2 * multiply_adds
    # Nobody needs the gradient of the image.
    assert step_flops(ResNetLayout(**DIGITS)) == 6 * multiply_adds - 2 * 64 * 9 * 64


def test_odd_sizes_are_rounded_up():
    # 5 x 3 pixels, then 3 x 2, 2 x 1 and 1 x 1.
    multiply_adds = 15 * 9 * 1 * 64 + 4 * 15 * 9 * 64 * 64
    multiply_adds += 6 * (9 * 64 * 128 + 3 * 9 * 128 * 128 + 64 * 128)
    multiply_adds += 2 * (9 * 128 * 256 + 3 * 9 * 256 * 256 + 128 * 256)
    multiply_adds += 1 * (9 * 256 * 512 + 3 * 9 * 512 * 512 + 256 * 512) + 512 * 10
    assert forward_flops(ResNetLayout(**{**DIGITS, "input_shape": (5, 3, 1)})) == 2 * multiply_adds


@pytest.mark.parametrize("depth, giga", [(18, 1.814), (34, 3.664), (50, 4.089), (101, 7.801), (152, 11.514)])
def test_multiply_adds_of_imagenet_sizes_are_those_torchvision_publishes(depth, giga):
    flops = forward_flops(ResNetLayout(input_shape=(224, 224, 3), num_classes=1000, depth=depth))
    assert round(flops / 2e9, 3) == giga


def test_strides_in_the_1x1_save_three_quarters_of_three_convolutions():
    # Those of 56 x 56 x 256 x 128, 28 x 28 x 512 x 256 and 14 x 14 x 1024 x 512 multiply-adds, which are equal.
    later = forward_flops(ResNetLayout(input_shape=(224, 224, 3), num_classes=1000))
    first = forward_flops(ResNetLayout(input_shape=(224, 224, 3), num_classes=1000, stride_in="1x1"))
    assert later - first == 3 * 2 * (56 * 56 - 28 * 28) * 256 * 128
    assert first / 2e9 == pytest.approx(3.858, abs=0.001)


def test_space_to_depth_counts_as_what_it_computes():
    arguments = {"input_shape": (64, 64, 3), "num_classes": 10}
    plain, blocks = ResNetLayout(**arguments), ResNetLayout(**arguments, stem="space_to_depth")
    assert step_flops(blocks) == step_flops(plain)


def counted(arguments):
    """Convolutions and matrix products in our forward graph, as TensorFlow's profiler counts them for one example."""
    with tf.Graph().as_default() as graph:
        model = resnet(**arguments)
        model(tf.compat.v1.placeholder(tf.float32, [1, *arguments["input_shape"]]), training=False)
        options = {**tf.compat.v1.profiler.ProfileOptionBuilder.float_operation(), "output": "none"}
        options["account_type_regexes"] = ["Conv2D", "MatMul"]
        return tf.compat.v1.profiler.profile(graph, cmd="op", options=options).total_float_ops


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        DIGITS,
        {"input_shape": (63, 40, 3), "num_classes": 7, "depth": 50},
    ],
)
def test_tensorflow_counts_the_same_in_our_graph(arguments):
    assert counted(arguments) == forward_flops(ResNetLayout(**arguments))


def test_counting_loads_no_tensorflow():
    code = "import sys, tpuloop.models.resnet_flops; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
