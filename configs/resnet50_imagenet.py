"""ResNet-50 (v1.5) on ImageNet for a v3-8 or larger TPU: batch 1024, 90 epochs, a held-out accuracy of about 0.76.

--config=resnet50_imagenet:sgd, the default, is the usual recipe (arXiv:1706.02677: 0.1 for a batch of 256, five epochs
of warm-up) with a cosine and smoothed labels; --config=resnet50_imagenet:lars is meant for batches of 4096 and more
(--global_batch=8192 scales its rate). Needs ImageNet as TFRecords: --config.data.path=gs://BUCKET/imagenet. Neither was
run to its end by those who wrote it: no TPU was at hand. To try it at a small size first:
--config.data.size=64 --global_batch=8 --steps=2 --config.optimizer.schedule.warmup_steps=1
"""

from ml_collections import ConfigDict

_TRAIN_IMAGES = 1_281_167
_EPOCHS = 90
_WARMUP_EPOCHS = 5
_BATCH = 1024


def _steps(epochs: int) -> int:
    return round(epochs * _TRAIN_IMAGES / _BATCH)


def get_config(variant: str = "sgd") -> ConfigDict:
    """The recipe; `variant` is "sgd" or "lars"."""
    optimizers = {
        "sgd": {
            "name": "sgd",
            "momentum": 0.9,
            "nesterov": True,
            "weight_decay": 1e-4,
            "learning_rate": 0.1,
            "rate_per_batch": 256,
            "schedule": {"name": "cosine", "warmup_steps": _steps(_WARMUP_EPOCHS)},
        },
        # About the peak of submissions to MLPerf at a batch of 4096.
        "lars": {
            "name": "lars",
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "learning_rate": 9.0,
            "rate_per_batch": 4096,
            "schedule": {"name": "polynomial", "power": 2.0, "warmup_steps": _steps(_WARMUP_EPOCHS)},
        },
    }
    if variant not in optimizers:
        raise ValueError(f"the variant is 'sgd' or 'lars', not {variant!r}")
    return ConfigDict(
        {
            # The same function from the same weights as the usual stem; it fills more of a TPU's lanes.
            "model": {"name": "resnet50", "stem": "space_to_depth"},
            "data": {"name": "imagenet", "path": "imagenet", "size": 224, "dtype": "bfloat16"},
            "optimizer": optimizers[variant],
            "loss": {"label_smoothing": 0.1},
            "mixed_precision": "bfloat16",
            "steps": _steps(_EPOCHS),
            "global_batch": _BATCH,
            "eval_every": _steps(1),
            "save_every": _steps(1),
            "seed": 0,
        }
    )
