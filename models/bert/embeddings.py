"""Words, positions and segments as vectors."""

import tensorflow as tf

from .dropout import SeededLayer, dropout, when_training
from .initializer import initializer
from .layer_norm import layer_norm


@tf.keras.utils.register_keras_serializable("tpuloop")
class Embeddings(SeededLayer):
    """The sum of a word's, its position's and its segment's embedding, normalised and thinned.

    Called with [input_ids, segment_ids], integers of shape [batch, length]. Returns the vectors [batch, length, width]
    and the table of word embeddings, float32 [vocab_size, width], for a head that shares it.
    """

    def __init__(self, *, vocab_size: int, width: int, max_positions: int, segments: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.width = width
        self.max_positions = max_positions
        self.segments = segments
        self.dropout = dropout

    def build(self, input_shape):
        def add(name, shape, start):
            # float32 under any policy; a table is too large to be cast whole.
            return self.add_weight(name, shape, initializer=start, dtype=tf.float32, experimental_autocast=False)

        self.word_embeddings = add("word_embeddings", [self.vocab_size, self.width], initializer())
        self.token_type_embeddings = add("token_type_embeddings", [self.segments, self.width], initializer())
        self.position_embeddings = add("position_embeddings", [self.max_positions, self.width], initializer())
        self.gamma = add("LayerNorm/gamma", [self.width], "ones")
        self.beta = add("LayerNorm/beta", [self.width], "zeros")
        super().build(input_shape)

    def call(self, inputs, training=None):
        return self._call(inputs, training)

    # It has no control flow to convert, and looking for some takes most of the time to build a model.
    @tf.autograph.experimental.do_not_convert
    def _call(self, inputs, training):
        input_ids, segment_ids = inputs
        length = input_ids.shape[1]
        # A matrix product for the few segments: the gradient of a look-up would be a sum by row.
        of_segments = tf.matmul(
            tf.one_hot(tf.reshape(segment_ids, [-1]), self.segments), tf.convert_to_tensor(self.token_type_embeddings)
        )
        vectors = (
            tf.gather(self.word_embeddings, input_ids)
            + self.position_embeddings[:length]
            + tf.reshape(of_segments, [-1, length, self.width])
        )
        vectors = tf.cast(layer_norm(vectors, self.gamma, self.beta), self.compute_dtype)
        if self.dropout:
            vectors = when_training(
                training, lambda: dropout(vectors, self.dropout, self.draw_seeds(1)[0]), lambda: tf.identity(vectors)
            )
        return vectors, tf.convert_to_tensor(self.word_embeddings)

    def get_config(self):
        names = ("vocab_size", "width", "max_positions", "segments", "dropout")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
