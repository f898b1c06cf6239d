"""Stochastic gradient descent with weight decay of the classic kind."""

from typing import Any, Dict, Optional

import tensorflow as tf

from tpuloop.optimizers.decayed import check_weight_decay, is_decayed


@tf.keras.utils.register_keras_serializable(package="tpuloop")
class SGD(tf.keras.optimizers.SGD):
    """Keras's SGD on the gradient of loss + weight_decay / 2 * |w|^2.

      g <- g + weight_decay * w;   v <- momentum * v - learning_rate * g;   w <- w + v

    So the decay goes through the momentum, as in the ResNet papers and PyTorch's SGD. Biases and the variables of
    normalisation are not decayed; see `is_decayed`. A `clip_norm` of the loop measures the gradient without the decay.

    Args:
      learning_rate, momentum, nesterov: as in Keras's SGD.
      weight_decay: factor of the weight in the gradient.
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        name: str = "SGD",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, momentum, nesterov, name, **kwargs)
        self.weight_decay = check_weight_decay(weight_decay)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable, apply_state: Optional[Dict] = None) -> Any:
        if self.weight_decay and is_decayed(var):
            grad = grad + self.weight_decay * var
        return super()._resource_apply_dense(grad, var, apply_state=apply_state)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor, **kwargs: Any
    ) -> Any:
        if not self._uses_every_row(var):
            return super()._resource_apply_sparse_duplicate_indices(grad, var, indices, **kwargs)
        return self._resource_apply_dense(tf.math.unsorted_segment_sum(grad, indices, var.shape[0]), var, **kwargs)

    def _uses_every_row(self, var: tf.Variable) -> bool:
        """Whether rows without a gradient change as well."""
        return bool(self.weight_decay) and is_decayed(var)

    def get_config(self) -> Dict[str, Any]:
        """What `from_config` makes the same optimizer of."""
        return {**super().get_config(), "weight_decay": self.weight_decay}
