"""Adam with decoupled weight decay, arXiv:1711.05101."""

from typing import Any, Dict, Optional

import tensorflow as tf

from tpuloop.optimizers.decayed import check_weight_decay, is_decayed


@tf.keras.utils.register_keras_serializable(package="tpuloop")
class AdamW(tf.keras.optimizers.Adam):
    """w <- w - learning_rate * weight_decay * w, beside the update of Adam, which does not see the decay.

    Biases and the variables of normalisation are not decayed; see `is_decayed`. The learning rate of the step
    multiplies the decay, as in BERT's release and PyTorch; the paper's lambda is weight_decay * peak.

    Not `tf.keras.optimizers.experimental.AdamW`: that of Keras 2.9 takes (1 - learning_rate * weight_decay) * w away at
    every step, which leaves next to nothing of the weights.

    Args:
      learning_rate: number or schedule.
      weight_decay: share of a weight that a learning rate of 1 would take away at a step.
      beta_1, beta_2, epsilon, amsgrad: as in Keras's Adam.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamW",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, name, **kwargs)
        self.weight_decay = check_weight_decay(weight_decay)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable, apply_state: Optional[Dict] = None) -> Any:
        with tf.control_dependencies(self._decay(var, apply_state)):
            return super()._resource_apply_dense(grad, var, apply_state=apply_state)

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor, apply_state: Optional[Dict] = None
    ) -> Any:
        # All rows are decayed, since Adam moves all of them by their momentum as well.
        with tf.control_dependencies(self._decay(var, apply_state)):
            return super()._resource_apply_sparse(grad, var, indices, apply_state=apply_state)

    def _decay(self, var: tf.Variable, apply_state: Optional[Dict]) -> Any:
        if not self.weight_decay or not is_decayed(var):
            return []
        key = (var.device, var.dtype.base_dtype)
        coefficients = (apply_state or {}).get(key) or self._fallback_apply_state(*key)
        return [var.assign_sub(coefficients["lr_t"] * self.weight_decay * var, use_locking=self._use_locking)]

    def get_config(self) -> Dict[str, Any]:
        """What `from_config` makes the same optimizer of."""
        return {**super().get_config(), "weight_decay": self.weight_decay}
