"""A source whose examples are read once and then lie in memory, where they fit."""

import itertools
import logging
import os
from typing import Optional

import numpy as np
import tensorflow as tf

from tpuloop.data.arrays import ArraySource
from tpuloop.data.checks import DataError, named_specs
from tpuloop.data.faults import naming_faults
from tpuloop.data.source import Source

logger = logging.getLogger("tpuloop")

_BATCH = 1024
_SAMPLED_BATCHES = 4  # For what has no fixed size.
_SHARE = 0.6  # Of the memory that is free; the rest is for the model, and for what is held twice while it is read.


def in_memory(source: Source) -> ArraySource:
    """The examples of `source` as arrays; see `Source.cached`."""
    for name, spec in named_specs(source.element_spec):
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.is_fully_defined():
            raise DataError(f"feature {name} has no fixed shape, so that it cannot be cached as an array: pad it")
    needed = measured_bytes(source)
    free = free_memory()
    if free is not None and needed > _SHARE * free:
        raise DataError(
            f"caching {source.size:,} examples takes about {_gib(needed)}, and of the {_gib(free)} of memory that are "
            f"free a cache may take {_SHARE:.0%}: leave the cache out"
        )
    logger.info("caching %s examples in memory, about %s", f"{source.size:,}", _gib(needed))
    with naming_faults(source, lambda stage: stage.numbered_pass(batch_size=_BATCH)):
        parts = [tf.nest.map_structure(np.asarray, batch) for batch in source.one_pass(batch_size=_BATCH)]
    return ArraySource(tf.nest.map_structure(lambda *pieces: np.concatenate(pieces), *parts))


def measured_bytes(source: Source) -> int:
    """The memory that all examples of a source take, by its specs and, for strings, by a sample of them."""
    fixed = sum(
        spec.dtype.size * spec.shape.num_elements()
        for _, spec in named_specs(source.element_spec)
        if spec.dtype != tf.string
    )
    return int(source.size * (fixed + _string_bytes(source)))


def _string_bytes(source: Source) -> float:
    """The mean bytes of the strings of an example."""
    if all(spec.dtype != tf.string for _, spec in named_specs(source.element_spec)):
        return 0.0
    rows = total = 0
    for batch in itertools.islice(source.one_pass(batch_size=_BATCH), _SAMPLED_BATCHES):
        leaves = tf.nest.flatten(batch)
        rows += int(tf.shape(leaves[0])[0])
        total += sum(int(tf.reduce_sum(tf.strings.length(leaf))) for leaf in leaves if leaf.dtype == tf.string)
    return total / max(1, rows)


def free_memory() -> Optional[int]:
    """Bytes that programs can still take without swapping; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:.1f} MiB"
