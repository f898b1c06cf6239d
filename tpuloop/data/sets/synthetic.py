"""Made-up data of any shape, for throughput: nothing is read, and nothing can be learned."""

from typing import Any, Dict, Optional, Sequence

import numpy as np

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError
from tpuloop.data.sets.registry import DataSets


def synthetic(
    *,
    input_shape: Sequence[int] = (224, 224, 3),
    num_classes: int = 1000,
    examples: int = 1024,
    vocab_size: Optional[int] = None,
    dtype: str = "float32",
    seed: int = 0,
) -> DataSets:
    """Random inputs and labels.

    `x` is normally distributed of shape `input_shape`; with `vocab_size` token ids, int32 of that shape. `y` is a
    class as int64.

    Args:
      input_shape: of one example.
      num_classes: of the labels.
      examples: how many different ones there are.
      vocab_size: makes token ids below it.
      dtype: of `x` without a vocabulary: "float32", "float16" or "uint8".
      seed: of the numbers.

    Raises:
      DataError: for a size below 1 or another dtype.
    """
    sizes = [("num_classes", num_classes), ("examples", examples), *(("input_shape", size) for size in input_shape)]
    for name, size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise DataError(f"{name} must be made of integers of at least 1; it has {size!r}")
    if dtype not in ("float32", "float16", "uint8"):
        raise DataError(f"dtype must be float32, float16 or uint8; it is {dtype!r}")
    random = np.random.default_rng(seed)
    shape = (examples, *input_shape)
    x: np.ndarray
    if vocab_size is not None:
        x = random.integers(0, vocab_size, shape, dtype=np.int32)
    elif dtype == "uint8":
        x = random.integers(0, 256, shape, dtype=np.uint8)
    else:
        x = random.standard_normal(shape, dtype=np.float32).astype(dtype)
    arguments: Dict[str, Any] = {"input_shape": tuple(input_shape), "num_classes": num_classes}
    if vocab_size is not None:
        arguments.update(vocab_size=vocab_size)
    return DataSets(
        train=ArraySource((x, random.integers(0, num_classes, examples))),
        model_arguments=arguments,
        description=f"{examples:,} made-up examples, nothing to learn",
    )
