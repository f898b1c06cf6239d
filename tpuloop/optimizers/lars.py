"""Layer-wise adaptive rate scaling, arXiv:1708.03888."""

from typing import Any, Dict, Optional

import tensorflow as tf

from tpuloop.optimizers.decayed import is_decayed
from tpuloop.optimizers.sgd import SGD


@tf.keras.utils.register_keras_serializable(package="tpuloop")
class LARS(SGD):
    """SGD whose learning rate is scaled for each kernel by how large it is beside its gradient.

      trust = eeta * |w| / (|g| + weight_decay * |w|),   or 1 where |w| or |g| is 0
      v <- momentum * v - learning_rate * trust * (g + weight_decay * w);   w <- w + v

    This is the paper's Algorithm 1, and that of the MLPerf reference: the rate stands inside the momentum, so that
    a new rate does not rescale the past, and the norms are added rather than that of the sum taken. Biases and
    the variables of normalisation take plain steps without decay or trust; see `is_decayed`.

    Args:
      learning_rate: number or schedule; the paper's global rate gamma.
      momentum, nesterov, weight_decay: as in `SGD`.
      eeta: the trust coefficient.
    """

    def __init__(
        self,
        learning_rate: Any = 1.0,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float = 1e-4,
        eeta: float = 0.001,
        name: str = "LARS",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, momentum, nesterov, weight_decay, name, **kwargs)
        if not 0 < eeta < float("inf"):
            raise ValueError(f"eeta must be a positive number; it is {eeta!r}")
        self.eeta = eeta

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable, apply_state: Optional[Dict] = None) -> Any:
        if is_decayed(var):
            key = (var.device, var.dtype.base_dtype)
            coefficients = (apply_state or {}).get(key) or self._fallback_apply_state(*key)
            apply_state = {key: {**coefficients, "lr_t": coefficients["lr_t"] * self._trust(grad, var)}}
        return super()._resource_apply_dense(grad, var, apply_state=apply_state)

    def _trust(self, grad: tf.Tensor, var: tf.Variable) -> tf.Tensor:
        weight_norm, gradient_norm = tf.norm(var), tf.norm(grad)
        trust = self.eeta * weight_norm / (gradient_norm + self.weight_decay * weight_norm)
        return tf.where((weight_norm > 0) & (gradient_norm > 0), trust, 1.0)

    def _uses_every_row(self, var: tf.Variable) -> bool:
        # The norm is that of the whole gradient, each row of it summed.
        return is_decayed(var)

    def get_config(self) -> Dict[str, Any]:
        """What `from_config` makes the same optimizer of."""
        return {**super().get_config(), "eeta": self.eeta}
