"""Which variables weight decay leaves alone."""

import tensorflow as tf

from tpuloop.optimizers.decayed import is_decayed

layers = tf.keras.layers


def decayed(layer, *inputs):
    layer(*inputs)
    return sorted(variable.name.split(":")[0] for variable in layer.variables if is_decayed(variable))


def test_kernels_and_tables_are_decayed_and_vectors_are_not():
    assert decayed(layers.Dense(2, name="dense"), tf.ones([1, 3])) == ["dense/kernel"]
    assert decayed(layers.Embedding(3, 2, name="table"), tf.constant([1])) == ["table/embeddings"]
    assert decayed(layers.BatchNormalization(), tf.ones([1, 3])) == []


def test_biases_and_scales_of_more_dimensions_are_known_by_their_names():
    x = tf.ones([1, 2, 4])
    kernels = [f"attention/{part}/kernel" for part in ("attention_output", "key", "query", "value")]
    assert decayed(layers.MultiHeadAttention(2, 2, name="attention"), x, x) == kernels
    assert decayed(layers.LayerNormalization(axis=[1, 2]), x) == []
