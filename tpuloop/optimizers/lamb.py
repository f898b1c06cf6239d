"""Layer-wise adaptive moments for large batches, arXiv:1904.00962. Needs tensorflow-addons."""

from typing import Any, Dict

import tensorflow as tf
from tensorflow_addons import optimizers as addons

from tpuloop.optimizers.decayed import check_weight_decay, is_decayed


@tf.keras.utils.register_keras_serializable(package="tpuloop")
class LAMB(addons.LAMB):
    """The LAMB of tensorflow-addons, with the variables to leave alone known by their rank instead of by name.

      m, v as in Adam;   u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + weight_decay * w
      w <- w - learning_rate * |w| / |u| * u,   with the ratio 1 where |w| or |u| is 0

    Biases and the variables of normalisation have no decay and the ratio 1; see `is_decayed`.

    Args:
      learning_rate: number or schedule.
      weight_decay: factor of the weight in the update.
      beta_1, beta_2, epsilon: as in the paper.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        name: str = "LAMB",
        **kwargs: Any,
    ):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=check_weight_decay(weight_decay),
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            name=name,
            **kwargs,
        )

    def _do_use_weight_decay(self, variable: tf.Variable) -> bool:
        return is_decayed(variable)

    def _do_layer_adaptation(self, variable: tf.Variable) -> bool:
        return is_decayed(variable)

    def get_config(self) -> Dict[str, Any]:
        """What `from_config` makes the same optimizer of."""
        config = super().get_config()
        for name in ("exclude_from_weight_decay", "exclude_from_layer_adaptation"):
            del config[name]
        return config
