"""An MLP on the UCI handwritten digits: the main job, for any machine.

Reaches a held-out accuracy of at least 0.96 in a few seconds on a laptop's CPU. Uses no random layers, so that the
losses are the same on any number of replicas.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The recipe."""
    return ConfigDict(
        {
            "model": {"name": "mlp", "hidden": (128, 64)},
            "data": {"name": "digits"},
            "optimizer": {"name": "adam", "learning_rate": 1e-3},
            "steps": 1500,
            "global_batch": 64,
            "eval_every": 250,
            "save_every": 500,
            "seed": 0,
        }
    )
