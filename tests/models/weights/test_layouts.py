"""The layouts: every name of a published file leads to the right variable, and what it holds lies as ours does."""

import numpy as np
import pytest
import tensorflow as tf
from tpuloop.models.weights import hugging_face_bert, keras_applications_resnet, original_bert, torchvision_resnet
from tpuloop.models.weights.errors import OtherVariant
from tpuloop.models.weights.recognise import recognise


def sources(layout, names, model=None):
    model = model or tf.keras.Sequential()
    return {ours: source.names for ours, source in layout.LAYOUT.sources(names, model).items()}


@pytest.mark.parametrize(
    "name, ours",
    [
        ("conv1.weight", "stem_conv/kernel"),
        ("bn1.weight", "stem_norm/gamma"),
        ("bn1.bias", "stem_norm/beta"),
        ("bn1.running_mean", "stem_norm/moving_mean"),
        ("bn1.running_var", "stem_norm/moving_variance"),
        ("layer1.0.conv1.weight", "stage1_block1_conv1/kernel"),
        ("layer3.22.conv3.weight", "stage3_block23_conv3/kernel"),
        ("layer4.2.bn2.running_var", "stage4_block3_norm2/moving_variance"),
        ("layer2.0.downsample.0.weight", "stage2_block1_shortcut_conv/kernel"),
        ("layer2.0.downsample.1.bias", "stage2_block1_shortcut_norm/beta"),
        ("fc.weight", "logits/kernel"),
        ("fc.bias", "logits/bias"),
        ("layer1.0.conv1.bias", None),
        ("layer1.0.bn1.scale", None),
        ("fc.scale", None),
        ("head.weight", None),
    ],
)
def test_names_of_torchvision(name, ours):
    assert sources(torchvision_resnet, [name]) == ({} if ours is None else {ours: (name,)})


def test_the_counters_of_torchvision_are_no_weights():
    assert torchvision_resnet.LAYOUT.ignores("layer1.0.bn1.num_batches_tracked")
    assert not torchvision_resnet.LAYOUT.ignores("layer1.0.bn1.weight")


def test_kernels_of_pytorch_compute_the_same_in_our_order():
    random = np.random.RandomState(0)
    found = torchvision_resnet.LAYOUT.sources(["conv1.weight", "fc.weight"], tf.keras.Sequential())
    kernel = random.normal(size=[4, 3, 2, 5]).astype(np.float32)  # out, in, height, width
    image = random.normal(size=[1, 2, 5, 3]).astype(np.float32)
    expected = np.einsum("oihw,bhwi->bo", kernel, image)
    ours = found["stem_conv/kernel"].convert(kernel)
    np.testing.assert_allclose(tf.nn.conv2d(image, ours, 1, "VALID")[:, 0, 0], expected, atol=1e-5)
    weight = random.normal(size=[4, 3])
    vector = random.normal(size=[3])
    np.testing.assert_allclose(vector @ found["logits/kernel"].convert(weight), weight @ vector)


@pytest.mark.parametrize(
    "name, ours",
    [
        ("embeddings.word_embeddings.weight", "bert/embeddings/word_embeddings"),
        ("embeddings.position_embeddings.weight", "bert/embeddings/position_embeddings"),
        ("embeddings.token_type_embeddings.weight", "bert/embeddings/token_type_embeddings"),
        ("embeddings.LayerNorm.weight", "bert/embeddings/LayerNorm/gamma"),
        ("embeddings.LayerNorm.beta", "bert/embeddings/LayerNorm/beta"),
        ("encoder.layer.11.attention.self.query.weight", "bert/encoder/layer_11/attention/self/query/kernel"),
        ("encoder.layer.0.attention.self.value.bias", "bert/encoder/layer_0/attention/self/value/bias"),
        ("encoder.layer.0.attention.output.dense.weight", "bert/encoder/layer_0/attention/output/dense/kernel"),
        ("encoder.layer.0.attention.output.LayerNorm.gamma", "bert/encoder/layer_0/attention/output/LayerNorm/gamma"),
        ("encoder.layer.0.intermediate.dense.weight", "bert/encoder/layer_0/intermediate/dense/kernel"),
        ("encoder.layer.0.output.dense.bias", "bert/encoder/layer_0/output/dense/bias"),
        ("encoder.layer.0.output.LayerNorm.bias", "bert/encoder/layer_0/output/LayerNorm/beta"),
        ("pooler.dense.weight", "bert/pooler/dense/kernel"),
        ("pooler.dense.bias", "bert/pooler/dense/bias"),
        ("encoder.layer.0.crossattention.self.query.weight", None),
        ("embeddings.word_embeddings.bias", None),
    ],
)
def test_names_of_hugging_face_with_and_without_their_first_part(name, ours):
    for written in (name, f"bert.{name}"):
        assert sources(hugging_face_bert, [written]) == ({} if ours is None else {ours: (written,)})


@pytest.mark.parametrize(
    "name, ours",
    [
        ("cls.predictions.transform.dense.weight", "cls/predictions/transform/dense/kernel"),
        ("cls.predictions.transform.dense.bias", "cls/predictions/transform/dense/bias"),
        ("cls.predictions.transform.LayerNorm.weight", "cls/predictions/transform/LayerNorm/gamma"),
        ("cls.predictions.transform.LayerNorm.beta", "cls/predictions/transform/LayerNorm/beta"),
        ("cls.predictions.bias", "cls/predictions/output_bias"),
        ("cls.seq_relationship.weight", "cls/seq_relationship/output_weights"),
        ("cls.seq_relationship.bias", "cls/seq_relationship/output_bias"),
        ("classifier.weight", "logits/kernel"),
        ("classifier.bias", "logits/bias"),
        ("qa_outputs.weight", "span_logits/kernel"),
        ("qa_outputs.bias", "span_logits/bias"),
    ],
)
def test_heads_of_hugging_face(name, ours):
    assert sources(hugging_face_bert, [name]) == {ours: (name,)}


def test_dense_kernels_of_hugging_face_are_transposed_and_tables_are_not():
    names = [
        "bert.encoder.layer.0.intermediate.dense.weight",
        "classifier.weight",
        "cls.predictions.transform.dense.weight",
        "bert.embeddings.word_embeddings.weight",
        "cls.seq_relationship.weight",
    ]
    found = hugging_face_bert.LAYOUT.sources(names, None)
    shapes = {ours: source.convert(np.zeros([2, 5])).shape for ours, source in found.items()}
    assert shapes == {
        "bert/encoder/layer_0/intermediate/dense/kernel": (5, 2),
        "logits/kernel": (5, 2),
        "cls/predictions/transform/dense/kernel": (5, 2),
        "bert/embeddings/word_embeddings": (2, 5),
        "cls/seq_relationship/output_weights": (2, 5),
    }


def test_a_tied_tensor_of_hugging_face_counts_where_it_is_the_only_one_of_its_pair():
    decoder = ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]
    ours = ["bert/embeddings/word_embeddings", "cls/predictions/output_bias"]
    others = ["bert.embeddings.word_embeddings.weight", "cls.predictions.bias"]
    assert sources(hugging_face_bert, decoder + others) == {ours[0]: (others[0],), ours[1]: (others[1],)}
    assert sources(hugging_face_bert, decoder) == {ours[0]: (decoder[0],), ours[1]: (decoder[1],)}
    for name in [*decoder, "bert.embeddings.position_ids", "embeddings.position_ids"]:
        assert hugging_face_bert.LAYOUT.ignores(name)


def test_the_original_release_has_our_names_and_heads_of_its_own():
    heads = ["output_bias", "output_weights", "cls/squad/output_bias", "cls/squad/output_weights"]
    names = ["bert/pooler/dense/kernel", *heads]
    assert sources(original_bert, names) == {
        "bert/pooler/dense/kernel": ("bert/pooler/dense/kernel",),
        "logits/kernel": ("output_weights",),
        "logits/bias": ("output_bias",),
        "span_logits/kernel": ("cls/squad/output_weights",),
        "span_logits/bias": ("cls/squad/output_bias",),
    }
    for head in ("logits", "span_logits"):
        kernel = original_bert.LAYOUT.sources(names, None)[f"{head}/kernel"]
        assert kernel.convert(np.zeros([2, 5])).shape == (5, 2)
    pooler = original_bert.LAYOUT.sources(names, None)["bert/pooler/dense/kernel"]
    np.testing.assert_array_equal(pooler.convert(np.eye(2)[:1]), [[1, 0]])
    for name in ("bert/pooler/dense/kernel/adam_m", "bert/pooler/dense/kernel/adam_v", "beta1_power"):
        assert original_bert.LAYOUT.ignores(name)
    assert not original_bert.LAYOUT.ignores("bert/pooler/dense/kernel")


def resnet_like(first_stride, epsilon=1e-5, kernel=1):
    convolution = tf.keras.layers.Conv2D(1, kernel, strides=first_stride, padding="same", name="stage2_block1_conv1")
    norm = tf.keras.layers.BatchNormalization(epsilon=epsilon, name="stage2_block1_norm1")
    model = tf.keras.Sequential([convolution, norm])
    model.build([None, 2, 2, 1])
    return model


@pytest.mark.parametrize(
    "name, ours",
    [
        ("conv1_conv/kernel", "stem_conv/kernel"),
        ("conv1_bn/beta", "stem_norm/beta"),
        ("conv2_block1_1_conv/kernel", "stage1_block1_conv1/kernel"),
        ("conv4_block23_3_bn/gamma", "stage3_block23_norm3/gamma"),
        ("conv3_block1_0_conv/kernel", "stage2_block1_shortcut_conv/kernel"),
        ("conv3_block1_0_bn/moving_variance", "stage2_block1_shortcut_norm/moving_variance"),
        ("predictions/kernel", "logits/kernel"),
        ("probs/bias", "logits/bias"),
        ("top_conv/kernel", None),
    ],
)
def test_names_of_keras_applications(name, ours):
    expected = {} if ours is None else {ours: (name,)}
    assert sources(keras_applications_resnet, [name], resnet_like(2, 1e-5)) == expected


def test_biases_and_epsilon_of_keras_applications_go_into_the_statistics():
    names = [f"conv3_block1_1_{name}" for name in ("conv/bias", "bn/moving_mean", "bn/moving_variance")]
    model = resnet_like(2, 1e-5)
    found = keras_applications_resnet.LAYOUT.sources(names, model)
    mean, variance = (found[f"stage2_block1_norm1/moving_{name}"] for name in ("mean", "variance"))
    assert mean.names == (names[1], names[0])
    # What the norm subtracts from a convolution with bias 3 and mean 5 it subtracts from one without as 2.
    np.testing.assert_array_equal(mean.convert(np.float32([5]), np.float32([3])), [2])
    assert variance.convert(np.float32([1e-6])) + 1e-5 == pytest.approx(1e-6 + 1.001e-5, rel=1e-6)
    larger = keras_applications_resnet.LAYOUT.sources(names, resnet_like(2, 1e-3))
    converted = larger["stage2_block1_norm1/moving_variance"].convert(np.float32([1]))
    assert converted + 1e-3 == pytest.approx(1 + 1.001e-5, rel=1e-6)


def test_keras_applications_do_not_go_into_a_model_of_another_variant():
    names = ["conv2_block1_1_conv/kernel"]
    with pytest.raises(OtherVariant, match="the model's in the 3x3: build the model with stride_in='1x1'$"):
        keras_applications_resnet.LAYOUT.sources(names, resnet_like(1, 1e-5))
    with pytest.raises(ValueError, match="it is a ResNet V2"):
        keras_applications_resnet.LAYOUT.sources([*names, "conv2_block1_preact_bn/gamma"], resnet_like(2, 1e-5))


def test_torchvision_does_not_go_into_a_model_of_the_other_variant():
    names = ["layer2.0.conv1.weight"]
    with pytest.raises(OtherVariant, match="the model's in the first: build the model with stride_in='3x3'$"):
        torchvision_resnet.LAYOUT.sources(names, resnet_like(2))
    for fitting in (resnet_like(1), resnet_like(2, kernel=3)):
        assert torchvision_resnet.LAYOUT.sources(names, fitting)


@pytest.mark.parametrize(
    "name, title",
    [
        ("layer1.0.conv1.weight", "torchvision ResNet"),
        ("conv2_block1_1_conv/kernel", "Keras Applications ResNet"),
        ("conv2_block1_preact_bn/gamma", "Keras Applications ResNet"),
        ("bert.encoder.layer.0.attention.self.query.weight", "Hugging Face BERT"),
        ("encoder.layer.0.attention.self.query.weight", "Hugging Face BERT"),
        ("bert/embeddings/word_embeddings", "original BERT"),
        ("hidden_0/kernel", "the model's own names"),
    ],
)
def test_a_layout_is_told_by_its_names(name, title):
    assert recognise(["something.else", name], variables=["hidden_0/kernel", "logits/kernel"]).title == title


def test_other_names_are_shown():
    names = [f"roberta.encoder.layer.{number}.weight" for number in range(7)]
    with pytest.raises(ValueError) as raised:
        recognise(names, variables=["b/kernel", "a/kernel", "c/kernel"])
    assert str(raised.value) == (
        f"its names ({', '.join(names[:5])} and 2 more) are of no layout that is known here: torchvision ResNet, "
        "Keras Applications ResNet, Hugging Face BERT, original BERT, or the model's own (a/kernel, b/kernel)"
    )
    with pytest.raises(ValueError, match="it holds nothing"):
        recognise([], variables=["a/kernel"])
