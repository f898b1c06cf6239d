"""The encoder that Keras's own layers make, for the same inputs and with the same head as ours."""

import tensorflow as tf

layers = tf.keras.layers

_DROPOUT = 0.1


def keras_encoder(
    *, vocab_size: int, sequence_length: int, max_predictions: int, depth: int, width: int, heads: int
) -> tf.keras.Model:
    """A masked-language model from the features of BERT's release to logits [batch, max_predictions, vocab_size]."""
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = {name: tf.keras.Input([sequence_length], dtype=tf.int32, name=name) for name in names}
    places = tf.keras.Input([max_predictions], dtype=tf.int32, name="masked_lm_positions")

    def normalised(x: tf.Tensor) -> tf.Tensor:
        return layers.LayerNormalization(epsilon=1e-12)(x)

    words = layers.Embedding(vocab_size, width)(inputs["input_ids"])
    segments = layers.Embedding(2, width)(inputs["segment_ids"])
    # Made of an input, since a layer that is called on a constant is no part of the model.
    numbers = tf.cumsum(tf.ones_like(inputs["input_ids"]), axis=1, exclusive=True)
    positions = layers.Embedding(sequence_length, width)(numbers)
    x = layers.Dropout(_DROPOUT)(normalised(words + segments + positions))
    mask = tf.cast(inputs["input_mask"], tf.bool)[:, tf.newaxis, :]
    for _ in range(depth):
        mixed = layers.MultiHeadAttention(heads, width // heads, dropout=_DROPOUT)(x, x, attention_mask=mask)
        x = normalised(x + layers.Dropout(_DROPOUT)(mixed))
        inner = layers.Dense(4 * width, activation="gelu")(x)
        x = normalised(x + layers.Dropout(_DROPOUT)(layers.Dense(width)(inner)))
    chosen = tf.gather(x, places, batch_dims=1)
    chosen = normalised(layers.Dense(width, activation="gelu")(chosen))
    return tf.keras.Model({**inputs, "masked_lm_positions": places}, layers.Dense(vocab_size)(chosen))
