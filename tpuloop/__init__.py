"""A training loop and Keras callbacks for TensorFlow 2.9 on Cloud TPU, GPUs and laptops.

The names below load TensorFlow at first use, so that `import tpuloop` itself is quick.
"""

import importlib
from typing import Any, List

__version__ = "0.1.0"

_WHERE = {
    "ArraySource": "tpuloop.data.arrays",
    "Callback": "tpuloop.hooks",
    "CheckpointError": "tpuloop.checkpoint.commit",
    "DataError": "tpuloop.data.checks",
    "DataSets": "tpuloop.data.sets.registry",
    "LoopSettings": "tpuloop.settings",
    "Mean": "tpuloop.engine.mean",
    "MixtureSource": "tpuloop.data.mixture",
    "PackedSource": "tpuloop.data.packed_source",
    "Progress": "tpuloop.callbacks.progress",
    "Recipe": "tpuloop.commands.recipe",
    "RecordSource": "tpuloop.data.record_source",
    "Runtime": "tpuloop.runtime",
    "RuntimeUnavailable": "tpuloop.runtime",
    "Shard": "tpuloop.data.shard",
    "Source": "tpuloop.data.source",
    "StepTrace": "tpuloop.engine.trace",
    "SumOfMeans": "tpuloop.engine.mean",
    "TensorBoardScalars": "tpuloop.callbacks.tensorboard",
    "TrainLoop": "tpuloop.loop",
    "UsageError": "tpuloop.errors",
    "converted_source": "tpuloop.data.converted",
    "init_from": "tpuloop.initial_weights",
    "run": "tpuloop.commands.program",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *_WHERE})
