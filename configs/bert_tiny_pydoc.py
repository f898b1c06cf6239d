"""BERT-tiny, masked-language modelling on the language reference in CPython: for any machine, no download.

In 1600 steps, less than ten minutes on two cores, the loss falls to less than 0.6 of what it is at step 100. A guess by
frequency alone has a masked accuracy of 0.07, as the run says when it starts.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The recipe."""
    return ConfigDict(
        {
            # Too small for so much text to learn it by heart: dropout would only slow it down.
            "model": {"name": "bert_tiny", "dropout": 0.0, "attention_dropout": 0.0},
            "data": {"name": "pydoc", "sequence_length": 128},
            "optimizer": {
                "name": "adamw",
                "learning_rate": 2e-3,
                "weight_decay": 0.01,
                "schedule": {"name": "linear", "warmup_steps": 100},
            },
            "clip_norm": 1.0,
            "steps": 1600,
            "global_batch": 32,
            "eval_every": 200,
            "seed": 0,
        }
    )
