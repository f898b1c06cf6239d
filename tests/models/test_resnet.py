"""Residual networks: published sizes, names, what they start from, and the same function from either stem."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.resnet import resnet
from tpuloop.models.resnet_layout import ResNetLayout


def trainable_count(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def small(**arguments):
    return resnet(**{"input_shape": (8, 8, 1), "num_classes": 10, "depth": 18, "stem": "small", **arguments})


PUBLISHED = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}


@pytest.mark.parametrize("depth", list(PUBLISHED))
def test_the_layout_has_the_published_sizes(depth):
    layout = ResNetLayout(input_shape=(224, 224, 3), num_classes=1000, depth=depth)
    convolutions = [layout.first()]
    for block in layout.blocks():
        convolutions += [*block.convolutions, *([block.shortcut] if block.shortcut else [])]
    # Each with a scale and a shift for every output, and the logits with a bias.
    parameters = sum(one.kernel**2 * one.inputs * one.outputs + 2 * one.outputs for one in convolutions)
    assert parameters + (layout.blocks()[-1].convolutions[-1].outputs + 1) * 1000 == PUBLISHED[depth]


@pytest.mark.parametrize(
    "depth", [18, *(pytest.param(depth, marks=pytest.mark.slow) for depth in PUBLISHED if depth > 18)]
)
def test_the_models_have_the_published_sizes(depth):
    model = resnet(input_shape=(224, 224, 3), num_classes=1000, depth=depth)
    assert trainable_count(model) == PUBLISHED[depth]
    assert model.output_shape == (None, 1000)
    assert model.name == f"resnet{depth}"


@pytest.fixture(scope="module")
def resnet50():
    return resnet(input_shape=(64, 64, 3), num_classes=10)


def test_blocks_of_three_are_named_and_shaped_as_the_table_says(resnet50):
    shapes = {variable.name: tuple(variable.shape) for variable in resnet50.variables}
    assert shapes["stem_conv/kernel:0"] == (7, 7, 3, 64)
    assert shapes["stem_norm/moving_variance:0"] == (64,)
    assert shapes["stage1_block1_shortcut_conv/kernel:0"] == (1, 1, 64, 256)
    assert shapes["stage2_block1_conv1/kernel:0"] == (1, 1, 256, 128)
    assert shapes["stage2_block1_conv2/kernel:0"] == (3, 3, 128, 128)
    assert shapes["stage2_block1_conv3/kernel:0"] == (1, 1, 128, 512)
    assert shapes["stage2_block1_shortcut_norm/gamma:0"] == (512,)
    assert shapes["stage4_block3_norm3/beta:0"] == (2048,)
    assert shapes["logits/kernel:0"] == (2048, 10)
    assert "stage2_block2_shortcut_conv/kernel:0" not in shapes
    assert not [name for name in shapes if name.endswith("conv/bias:0")]
    # 53 convolutions, each with four vectors of its norm, and the logits' two.
    assert len(shapes) == 53 * 5 + 2
    # The stride is in the 3x3.
    assert resnet50.get_layer("stage2_block1_conv1").output_shape[1:3] == (16, 16)
    assert resnet50.get_layer("stage2_block1_conv2").output_shape[1:3] == (8, 8)


def test_the_stages_of_a_small_stem_see_the_image_at_full_half_quarter_and_eighth_size():
    model = small()
    sizes = [model.get_layer(f"stage{stage}_block2_relu").output_shape[1:] for stage in (1, 2, 3, 4)]
    assert sizes == [(8, 8, 64), (4, 4, 128), (2, 2, 256), (1, 1, 512)]
    assert tuple(model.get_layer("stem_conv").kernel.shape) == (3, 3, 1, 64)


def test_odd_sizes_and_any_channels_make_a_network_whose_every_variable_learns():
    model = small(input_shape=(7, 9, 5), num_classes=2, zero_init_gamma=False)
    with tf.GradientTape() as tape:
        logits = model(tf.random.normal([4, 7, 9, 5]), training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 0, 1], logits))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(tf.reduce_any(gradient != 0) for gradient in gradients)


@pytest.mark.parametrize("depth, last", [(18, "norm2"), (50, "norm3")])
def test_a_block_starts_as_its_shortcut(depth, last, resnet50):
    model = resnet50 if depth == 50 else resnet(input_shape=(64, 64, 3), num_classes=10, depth=depth)
    gammas = {variable.name: variable.numpy() for variable in model.trainable_variables if "gamma" in variable.name}
    for name, gamma in gammas.items():
        np.testing.assert_array_equal(gamma, 0 if f"_{last}/" in name else 1, err_msg=name)
    block = tf.keras.Model(model.input, [model.get_layer(f"stage3_block{number}_relu").output for number in (1, 2)])
    first, second = block(tf.random.normal([2, 64, 64, 3]), training=False)
    assert tf.reduce_max(first) > 0.1
    np.testing.assert_array_equal(first, second)


def test_gammas_start_from_one_where_asked():
    gammas = [variable for variable in small(zero_init_gamma=False).variables if "gamma" in variable.name]
    assert all(np.all(gamma.numpy() == 1) for gamma in gammas)


def test_weights_start_as_documented():
    model = small(num_classes=1000)
    kernel = model.get_layer("stage4_block2_conv2").kernel.numpy()
    deviation = np.sqrt(2 / (9 * 512))
    # A normal distribution of 2.4 million numbers reaches 5 deviations; a truncated one ends at 2.
    np.testing.assert_allclose(kernel.std(), deviation, rtol=0.01)
    assert 4.5 * deviation < np.abs(kernel).max() < 6.5 * deviation
    # By the outputs: 9 x 64 here, not 9 x 1.
    np.testing.assert_allclose(model.get_layer("stem_conv").kernel.numpy().std(), np.sqrt(2 / (9 * 64)), rtol=0.15)
    logits = model.get_layer("logits")
    np.testing.assert_allclose(logits.kernel.numpy().std(), 0.01, rtol=0.01)
    np.testing.assert_array_equal(logits.bias.numpy(), 0)


def test_moving_averages_keep_nine_tenths_a_step():
    model = small()
    model(tf.random.normal([4, 8, 8, 1]) + 3, training=True)
    convolved = tf.keras.Model(model.input, model.get_layer("stem_conv").output)
    images = tf.random.normal([4, 8, 8, 1]) + 3
    before = model.get_layer("stem_norm").moving_mean.numpy()
    model(images, training=True)
    mean = tf.reduce_mean(convolved(images), [0, 1, 2])
    np.testing.assert_allclose(model.get_layer("stem_norm").moving_mean, 0.9 * before + 0.1 * mean, atol=1e-5)
    assert {layer.epsilon for layer in model.layers if "norm" in layer.name} == {1e-5}


@pytest.mark.parametrize("norm, kind", [("batch", "BatchNormalization"), ("sync_batch", "SyncBatchNormalization")])
def test_logits_variables_and_statistics_are_float32_in_bfloat16(norm, kind):
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = small(norm=norm)
    assert [type(layer).__name__ for layer in model.layers if "norm" in layer.name] == [kind] * 20
    assert model.get_layer("stage1_block1_conv1").compute_dtype == "bfloat16"
    assert model.get_layer("stage1_block1_relu").output.dtype == tf.bfloat16
    images = tf.random.normal([4, 8, 8, 1])
    assert model(images, training=True).dtype == tf.float32
    assert model.get_layer("pool").output.dtype == tf.float32
    assert {variable.dtype for variable in model.variables} == {tf.float32}
    # A variance of bfloat16 has 8 bits; this one agrees with that of the convolution's outputs to more.
    convolved = tf.keras.Model(model.input, model.get_layer("stem_conv").output)(images)
    mean = tf.reduce_mean(tf.cast(convolved, tf.float32), [0, 1, 2])
    np.testing.assert_allclose(model.get_layer("stem_norm").moving_mean, 0.1 * mean, atol=1e-6)


@pytest.mark.slow
def test_strides_in_the_1x1_give_the_network_of_keras_applications():
    """The same weights, the same logits; its convolutions have biases, here 0."""
    theirs = tf.keras.applications.ResNet50(
        weights=None, input_shape=(64, 96, 3), classes=10, classifier_activation=None
    )
    ours = resnet(input_shape=(64, 96, 3), num_classes=10, stride_in="1x1")
    steps = {"1": "1", "2": "2", "3": "3", "0": "shortcut"}
    for layer in theirs.layers:
        if not layer.weights:
            continue
        if layer.name == "predictions":
            name = "logits"
        elif layer.name in ("conv1_conv", "conv1_bn"):
            name = "stem_norm" if layer.name.endswith("bn") else "stem_conv"
        else:
            stage, block, step, kind = layer.name.split("_")
            prefix = f"stage{int(stage[len('conv')]) - 1}_{block}"
            kind = "norm" if kind == "bn" else "conv"
            name = f"{prefix}_shortcut_{kind}" if step == "0" else f"{prefix}_{kind}{steps[step]}"
        layer_weights = layer.get_weights()
        if "conv" in name:
            layer_weights = layer_weights[:1]
        ours.get_layer(name).set_weights(layer_weights)
    images = tf.random.normal([2, 64, 96, 3])
    np.testing.assert_allclose(ours(images, training=True), theirs(images, training=True), atol=1e-4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"depth": 20}, "depth must be one of 18, 34, 50, 101, 152; it is 20"),
        ({"depth": "50"}, "depth must be one of 18, 34, 50, 101, 152; it is '50'"),
        ({"depth": 50.0}, "depth must be one of 18, 34, 50, 101, 152; it is 50.0"),
        ({"depth": [50]}, r"depth must be one of 18, 34, 50, 101, 152; it is \[50\]"),
        ({"stem": "cifar"}, "stem must be one of imagenet, space_to_depth, small; it is 'cifar'"),
        ({"stride_in": "2x2"}, "stride_in must be one of 3x3, 1x1; it is '2x2'"),
        ({"norm": "layer"}, "norm must be one of batch, sync_batch; it is 'layer'"),
        ({"norm": ["batch"]}, r"norm must be one of batch, sync_batch; it is \['batch'\]"),
        ({"num_classes": 0}, "num_classes must be an integer of at least 1; it is 0"),
        ({"num_classes": True}, "num_classes must be an integer of at least 1; it is True"),
        ({"input_shape": (64,)}, r"input_shape must be height, width and channels, .* it is \(64,\)"),
        ({"input_shape": (8, 8, None)}, r"input_shape must be height, width and channels, .* it is \(8, 8, None\)"),
        ({"input_shape": 8}, "input_shape must be height, width and channels, .* it is 8"),
        (
            {"stem": "space_to_depth", "input_shape": (32, 33, 3)},
            "stem space_to_depth needs an even height and width; they are 32 and 33: use stem imagenet",
        ),
    ],
)
def test_what_makes_no_network_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)
