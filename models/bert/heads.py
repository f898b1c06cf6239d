"""What a BERT ends in: words for masked positions, the next sentence, classes, tags, spans."""

import tensorflow as tf

from .activations import BY_NAME
from .initializer import initializer
from .layer_norm import layer_norm


@tf.keras.utils.register_keras_serializable("tpuloop")
class MaskedWords(tf.keras.layers.Layer):
    """Which word stands at each of some positions. The output layer is the table of word embeddings.

    Called with [vectors [batch, length, width], positions int32 [batch, predictions], table [vocab_size, width]].
    Returns float32 logits [batch, predictions, vocab_size].
    """

    def __init__(self, *, activation: str, **kwargs):
        super().__init__(**kwargs)
        self.activation = activation

    def build(self, input_shape):
        (_, _, width), _, (vocab_size, _) = input_shape

        def add(name, shape, start, autocast=False):
            return self.add_weight(name, shape, initializer=start, dtype=tf.float32, experimental_autocast=autocast)

        self.kernel = add("transform/dense/kernel", [width, width], initializer(), autocast=True)
        self.bias = add("transform/dense/bias", [width], "zeros", autocast=True)
        self.gamma = add("transform/LayerNorm/gamma", [width], "ones")
        self.beta = add("transform/LayerNorm/beta", [width], "zeros")
        self.output_bias = add("output_bias", [vocab_size], "zeros")
        super().build(input_shape)

    def call(self, inputs):
        vectors, positions, table = inputs
        length, width = vectors.shape[1:]
        starts = tf.range(tf.shape(positions)[0])[:, tf.newaxis] * length
        # A place outside its sequence must not be one of the next example.
        places = tf.where((positions >= 0) & (positions < length), positions + starts, -1)
        chosen = tf.gather(tf.reshape(vectors, [-1, width]), tf.reshape(places, [-1]))
        hidden = BY_NAME[self.activation](tf.nn.bias_add(tf.matmul(chosen, self.kernel), self.bias))
        # float32 under any policy: bfloat16 has nothing between 8 and 8.06. On a TPU it costs nothing: a product of
        # float32 takes bfloat16 factors there too, and adds up in float32.
        hidden = layer_norm(tf.cast(hidden, tf.float32), self.gamma, self.beta)
        logits = tf.nn.bias_add(tf.matmul(hidden, table, transpose_b=True), tf.convert_to_tensor(self.output_bias))
        shape = [-1, tf.shape(positions)[1] if positions.shape[1] is None else positions.shape[1], table.shape[0]]
        return tf.reshape(logits, shape)

    def get_config(self):
        return {**super().get_config(), "activation": self.activation}


@tf.keras.utils.register_keras_serializable("tpuloop")
class Pooler(tf.keras.layers.Layer):
    """A dense layer with tanh over the first vector: [batch, length, width] to [batch, width]."""

    def build(self, input_shape):
        width = input_shape[-1]
        self.kernel = self.add_weight("dense/kernel", [width, width], initializer=initializer())
        self.bias = self.add_weight("dense/bias", [width], initializer="zeros")
        super().build(input_shape)

    def call(self, vectors):
        return tf.tanh(tf.nn.bias_add(tf.matmul(vectors[:, 0], self.kernel), self.bias))


@tf.keras.utils.register_keras_serializable("tpuloop")
class NextSentence(tf.keras.layers.Layer):
    """Whether the second sentence follows the first (class 0) or not (1): [batch, width] to logits [batch, 2]."""

    def build(self, input_shape):
        self.output_weights = self.add_weight("output_weights", [2, input_shape[-1]], initializer=initializer())
        self.output_bias = self.add_weight("output_bias", [2], initializer="zeros")
        super().build(input_shape)

    def call(self, pooled):
        return tf.nn.bias_add(tf.matmul(pooled, self.output_weights, transpose_b=True), self.output_bias)


@tf.keras.utils.register_keras_serializable("tpuloop")
class Span(tf.keras.layers.Layer):
    """From logits [batch, length, 2] and a mask [batch, length] to two of [batch, length], padding at -1e9."""

    def call(self, inputs):
        logits, input_mask = inputs
        kept = tf.cast(input_mask, tf.bool)
        return tuple(tf.where(kept, logits[:, :, part], -1e9) for part in (0, 1))
