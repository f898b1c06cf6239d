"""ResNet-50 (v1.5) on ImageNet for a v3-8 or larger TPU: batch 1024, 90 epochs, a held-out accuracy of about 0.76.

--config=resnet50_imagenet:sgd, the default, is the usual recipe (arXiv:1706.02677: 0.1 for a batch of 256, five epochs
of warm-up) with a cosine and smoothed labels. --config=resnet50_imagenet:lars is meant for larger batches, such as
lars-8192 on a v3-64: what stands behind the dash is the batch, from which the rate and the steps follow. Needs ImageNet
as TFRecords: --config.data.path=gs://BUCKET/imagenet. Neither was run to its end by those who wrote it: no TPU was at
hand. To try it at a small size first: --config.data.size=64 --global_batch=8 --steps=2
"""

from ml_collections import ConfigDict

_TRAIN_IMAGES = 1_281_167
_EPOCHS = 90
_WARMUP_EPOCHS = 5


def get_config(variant: str = "sgd") -> ConfigDict:
    """The recipe; `variant` is "sgd" or "lars", and perhaps a batch, such as "lars-8192"."""
    optimizer, _, batch = variant.partition("-")
    global_batch = int(batch) if batch.isdecimal() else 0 if batch else 1024
    if optimizer not in ("sgd", "lars") or not global_batch:
        raise ValueError(f"the variant is 'sgd' or 'lars', or with a batch such as 'lars-8192', not {variant!r}")

    def steps(epochs: int) -> int:
        return round(epochs * _TRAIN_IMAGES / global_batch)

    optimizers = {
        "sgd": {
            "name": "sgd",
            "momentum": 0.9,
            "nesterov": True,
            "weight_decay": 1e-4,
            "learning_rate": 0.1,
            "rate_per_batch": 256,
            "schedule": {"name": "cosine", "warmup_steps": steps(_WARMUP_EPOCHS)},
        },
        # About the peak of submissions to MLPerf at a batch of 4096.
        "lars": {
            "name": "lars",
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "learning_rate": 9.0,
            "rate_per_batch": 4096,
            "schedule": {"name": "polynomial", "power": 2.0, "warmup_steps": steps(_WARMUP_EPOCHS)},
        },
    }
    return ConfigDict(
        {
            # The same function from the same weights as the usual stem; it fills more of a TPU's lanes.
            "model": {"name": "resnet50", "stem": "space_to_depth"},
            "data": {"name": "imagenet", "path": "imagenet", "size": 224, "dtype": "bfloat16"},
            "optimizer": optimizers[optimizer],
            "loss": {"label_smoothing": 0.1},
            "mixed_precision": "bfloat16",
            "steps": steps(_EPOCHS),
            "global_batch": global_batch,
            "eval_every": steps(1),
            "save_every": steps(1),
            "seed": 0,
        }
    )
