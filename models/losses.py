"""Losses that Keras 2.9 lacks."""

from typing import Any, Dict

import tensorflow as tf

from .checks import check_share


@tf.keras.utils.register_keras_serializable("tpuloop")
class SmoothedCrossentropy(tf.keras.losses.Loss):
    """Cross-entropy of class numbers with logits, with smoothed labels (arXiv:1512.00567, section 7).

    The label's class has the probability 1 - s + s / classes, every other one s / classes.

    Args:
      label_smoothing: s, from 0 up to but not including 1.

    Raises:
      ValueError: for a number out of range.
    """

    class_numbers = True  # What its labels are, for who checks them.

    def __init__(self, *, label_smoothing: float, name: str = "smoothed_crossentropy", **keras: Any):
        check_share("label_smoothing", label_smoothing)
        super().__init__(name=name, **keras)
        self.label_smoothing: float = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """The loss of each example.

        Args:
          y_true: class numbers, of shape [batch] or [batch, 1].
          y_pred: logits of shape [batch, classes].

        Returns:
          float32 of shape [batch].
        """
        logits = tf.cast(y_pred, tf.float32)
        labels = tf.reshape(tf.cast(y_true, tf.int32), tf.shape(logits)[:-1])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        uniform = tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)
        return (1 - self.label_smoothing) * loss + self.label_smoothing * uniform

    def get_config(self) -> Dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
