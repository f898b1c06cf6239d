"""The encoder that Keras's own layers make, of the same size and with the same head: what ours is compared with."""

import tensorflow as tf

DROPOUT = 0.1


def keras_encoder(*, vocab_size, sequence_length, layers, width, heads, max_predictions, epsilon=1e-12):
    """A masked-LM model over the inputs of `bert`, but for segments; logits [batch, max_predictions, vocab_size]."""
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = {name: tf.keras.Input([sequence_length], dtype=tf.int32, name=name) for name in names}
    positions = tf.keras.Input([max_predictions], dtype=tf.int32, name="masked_lm_positions")

    def norm(x):
        return tf.keras.layers.LayerNormalization(epsilon=epsilon)(x)

    def dropout(x):
        return tf.keras.layers.Dropout(DROPOUT)(x)

    words = tf.keras.layers.Embedding(vocab_size, width)
    x = words(inputs["input_ids"]) + tf.keras.layers.Embedding(2, width)(inputs["segment_ids"])
    x = dropout(norm(x + tf.keras.layers.Embedding(512, width)(tf.range(sequence_length))))
    mask = tf.cast(inputs["input_mask"], tf.bool)[:, tf.newaxis, :]
    for _ in range(layers):
        attention = tf.keras.layers.MultiHeadAttention(heads, width // heads, dropout=DROPOUT)
        x = norm(x + dropout(attention(x, x, attention_mask=mask)))
        inner = tf.keras.layers.Dense(4 * width, activation="gelu")(x)
        x = norm(x + dropout(tf.keras.layers.Dense(width)(inner)))
    chosen = tf.gather(x, positions, batch_dims=1)
    chosen = norm(tf.keras.layers.Dense(width, activation="gelu")(chosen))
    logits = tf.keras.layers.Dense(vocab_size)(chosen)
    return tf.keras.Model({**inputs, "masked_lm_positions": positions}, logits)
