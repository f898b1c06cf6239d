"""BERT-tiny told to which package of the standard library a docstring belongs: fine-tuning, for any machine.

Reaches a held-out accuracy of about 0.82 (0.17 for always naming the most frequent package) in a minute on two cores.
Meant to start from the weights of the recipe bert_tiny_pydoc, whose vocabulary it shares:
--init_from=FOLDER of that run.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The recipe."""
    return ConfigDict(
        {
            "model": {"name": "bert_tiny"},
            "data": {"name": "docstrings", "sequence_length": 64},
            "optimizer": {
                "name": "adamw",
                "learning_rate": 5e-4,
                "weight_decay": 0.01,
                "schedule": {"name": "linear", "warmup_steps": 50},
            },
            "clip_norm": 1.0,
            "steps": 600,
            "global_batch": 32,
            "eval_every": 100,
            "seed": 0,
        }
    )
