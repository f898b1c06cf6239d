"""BERT-base pre-trained from nothing, for a v3-32 or larger TPU (or a v3-8 and patience), in two phases.

Nine tenths of the steps see 128 tokens, the last tenth 512 (arXiv:1810.04805, A.2):

    --config=bert_base_pretrain:adamw-128 --workdir=PHASE1
    --config=bert_base_pretrain:adamw-512 --workdir=PHASE2 --init_from=PHASE1

adamw has the paper's numbers: batch 256, rate 1e-4, 1,000,000 steps; each phase has a warm-up and a decay of its own,
where the paper has one over both. lamb is for large batches: 4096 and 125,000 steps, as its paper (arXiv:1904.00962)
has for BERT-large; the rate is one to begin a search with. On Wikipedia and books both should have a masked accuracy of
about 0.7. Needs pre-training files of the original release's format for each length:
--config.data.path=gs://BUCKET/wiki128/*. Neither was run to its end by those who wrote it: no TPU was at hand.
"""

from typing import Any, Dict

from ml_collections import ConfigDict

_OPTIMIZERS: Dict[str, Dict[str, Any]] = {
    "adamw": {"name": "adamw", "learning_rate": 1e-4, "weight_decay": 0.01, "epsilon": 1e-6},
    "lamb": {"name": "lamb", "learning_rate": 1.75e-3, "weight_decay": 0.01},
}
_STEPS = {"adamw": 1_000_000, "lamb": 125_000}
_BATCH = {"adamw": 256, "lamb": 4096}
_WARMUP = {"adamw": 10_000, "lamb": 3_125}
# The share of all steps, by the tokens of an example.
_PHASES = {"128": 0.9, "512": 0.1}


def get_config(variant: str = "adamw-128") -> ConfigDict:
    """The recipe; `variant` is an optimizer, "adamw" or "lamb", and the tokens of an example, "128" or "512"."""
    optimizer, _, length = variant.partition("-")
    if optimizer not in _OPTIMIZERS or length not in _PHASES:
        raise ValueError(f"the variant is 'adamw' or 'lamb' and '-128' or '-512', not {variant!r}")
    share = _PHASES[length]
    return ConfigDict(
        {
            "model": {"name": "bert_base"},
            "data": {"name": "bert", "path": f"wiki{length}/*.tfrecord", "vocab_size": 30522},
            "optimizer": {
                **_OPTIMIZERS[optimizer],
                "schedule": {"name": "linear", "warmup_steps": round(_WARMUP[optimizer] * share)},
            },
            "clip_norm": 1.0,
            "mixed_precision": "bfloat16",
            "steps": round(_STEPS[optimizer] * share),
            "global_batch": _BATCH[optimizer],
            "save_every": 5000,
            "seed": 0,
        }
    )
