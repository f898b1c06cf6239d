"""BERT-base fine-tuned to classify text, for one v3-8 TPU or a GPU of 16 GB: minutes for tens of thousands of examples.

Needs published weights and their vocabulary, and labelled text in JSON lines, {"text": ..., "label": ...} each:

    --init_from=bert-base-uncased/model.safetensors --config.data.vocab=bert-base-uncased/vocab.txt
    --config.data.path=reviews.jsonl

Batch 32, rate 2e-5, linear decay after a tenth of the steps, as arXiv:1810.04805, A.3 advises; the steps are three
epochs of SST-2, on which such weights reach an accuracy of about 0.93. Not run to its end by those who wrote it: the
weights need a download.
"""

from ml_collections import ConfigDict

_STEPS = 6_300


def get_config() -> ConfigDict:
    """The recipe."""
    return ConfigDict(
        {
            "model": {"name": "bert_base"},
            "data": {"name": "jsonl", "path": "train.jsonl", "vocab": "vocab.txt", "sequence_length": 128},
            "optimizer": {
                "name": "adamw",
                "learning_rate": 2e-5,
                "weight_decay": 0.01,
                "schedule": {"name": "linear", "warmup_steps": _STEPS // 10},
            },
            "clip_norm": 1.0,
            "mixed_precision": "bfloat16",
            "steps": _STEPS,
            "global_batch": 32,
            "eval_every": 1_000,
            "save_every": 1_000,
            "seed": 0,
        }
    )
