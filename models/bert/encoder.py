"""A block of the encoder: attention, then a feed-forward part, each normalised after its sum with its input."""

from typing import Dict, Optional

import tensorflow as tf

from .activations import BY_NAME
from .attention import attention
from .dropout import SeededLayer, dropout, when_training
from .initializer import initializer
from .layer_norm import layer_norm
from .recompute import recomputed


@tf.keras.utils.register_keras_serializable("tpuloop")
class Block(SeededLayer):
    """Called with [vectors, bias]: [batch, length, width], and [batch, 1, 1, length] of `PaddingBias`.

    Returns vectors of the same shape. The layer's weights have the names of the original release.
    """

    def __init__(
        self,
        *,
        heads: int,
        feed_forward: int,
        dropout: float,
        attention_dropout: float,
        activation: str,
        recompute: bool,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.heads = heads
        self.feed_forward = feed_forward
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.recompute = recompute

    def build(self, input_shape):
        width = input_shape[0][-1]
        self._parts: Dict[str, tf.Variable] = {}
        for name in ("query", "key", "value"):
            self._add_dense(f"attention/self/{name}", width, width)
        self._add_dense("attention/output/dense", width, width)
        self._add_norm("attention/output/LayerNorm", width)
        self._add_dense("intermediate/dense", width, self.feed_forward)
        self._add_dense("output/dense", self.feed_forward, width)
        self._add_norm("output/LayerNorm", width)
        super().build(input_shape)

    def _add_dense(self, name: str, inputs: int, outputs: int):
        self._parts[f"{name}/kernel"] = self.add_weight(f"{name}/kernel", [inputs, outputs], initializer=initializer())
        self._parts[f"{name}/bias"] = self.add_weight(f"{name}/bias", [outputs], initializer="zeros")

    def _add_norm(self, name: str, width: int):
        for part, start in (("gamma", "ones"), ("beta", "zeros")):
            self._parts[f"{name}/{part}"] = self.add_weight(
                f"{name}/{part}", [width], initializer=start, dtype=tf.float32, experimental_autocast=False
            )

    def call(self, inputs, training=None):
        return self._call(inputs, training)

    # It has no control flow to convert, and looking for some takes most of the time to build a model.
    @tf.autograph.experimental.do_not_convert
    def _call(self, inputs, training):
        vectors, bias = inputs
        weights = {name: tf.convert_to_tensor(part) for name, part in self._parts.items()}
        if not self.dropout and not self.attention_dropout:
            return self._run(vectors, bias, None, weights)
        # Drawn here, before what may be computed twice: a seed drawn in there would be another one each time.
        return when_training(
            training,
            lambda: self._run(vectors, bias, self.draw_seeds(3), weights),
            lambda: self._run(vectors, bias, None, weights),
        )

    def _run(self, vectors, bias, seeds, weights):
        if not self.recompute:
            return self._block(vectors, bias, seeds, weights)
        drawn = [] if seeds is None else [seeds]

        def block(vectors, bias, *rest):
            return self._block(vectors, bias, rest[0] if drawn else None, dict(zip(weights, rest[len(drawn) :])))

        return recomputed(block, 2 + len(drawn))(vectors, bias, *drawn, *weights.values())

    def _block(
        self, vectors: tf.Tensor, bias: tf.Tensor, seeds: Optional[tf.Tensor], weights: Dict[str, tf.Tensor]
    ) -> tf.Tensor:
        length, width = vectors.shape[1:]
        for_attention, for_mixed, for_output = (None, None, None) if seeds is None else tf.unstack(seeds, 3)

        def dense(x, name):
            return tf.nn.bias_add(tf.matmul(x, weights[f"{name}/kernel"]), weights[f"{name}/bias"])

        def norm(x, name):
            return layer_norm(x, weights[f"{name}/gamma"], weights[f"{name}/beta"])

        x = tf.reshape(vectors, [-1, width])  # Matrix products of two dimensions are the fast ones everywhere.
        query, key, value = (dense(x, f"attention/self/{name}") for name in ("query", "key", "value"))
        mixed = attention(
            query,
            key,
            value,
            bias,
            length=length,
            heads=self.heads,
            rate=self.attention_dropout,
            seed=for_attention,
        )
        mixed = dropout(dense(mixed, "attention/output/dense"), self.dropout, for_mixed)
        x = norm(x + mixed, "attention/output/LayerNorm")
        inner = BY_NAME[self.activation](dense(x, "intermediate/dense"))
        x = norm(x + dropout(dense(inner, "output/dense"), self.dropout, for_output), "output/LayerNorm")
        return tf.reshape(x, [-1, length, width])

    def get_config(self):
        names = ("heads", "feed_forward", "dropout", "attention_dropout", "activation", "recompute")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
