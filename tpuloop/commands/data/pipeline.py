"""Measures the pipeline of a training run stage by stage, and the step that it feeds."""

import dataclasses
import functools
import itertools
import statistics
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from tpuloop.commands.bench.stream_rates import batches_per_second
from tpuloop.commands.data import verdict
from tpuloop.commands.data.verdict import BATCH, TO_DEVICE, Stage
from tpuloop.data.arrays import ArraySource
from tpuloop.data.feed import Feed, FeedRules, train_feed
from tpuloop.data.packed_source import PackedSource
from tpuloop.data.source import as_source
from tpuloop.engine.trace import StepTrace
from tpuloop.hooks import Callback
from tpuloop.loop import TrainLoop

_SAMPLED = 5  # Batches that tell how large they are.
_WITHOUT_END = 10**9


def training_feed(loop: TrainLoop, data: Any, *, batch_size: Optional[int]) -> Feed:
    """The feed of a run that begins, as `TrainLoop.fit` makes it; it never ends.

    Raises:
      DataError: for data that cannot be trained on as it is.
    """
    runtime = loop.runtime
    rules = FeedRules(replicas=runtime.replicas, static_shapes=runtime.static_shapes, strings=not runtime.static_shapes)
    feed = train_feed(
        data,
        rules,
        batch_size=batch_size,
        seed=loop.settings.seed,
        step=0,
        by_pass=True,
        steps_per_epoch=None,
    )
    return feed if feed.endless else dataclasses.replace(feed, dataset=feed.dataset.repeat(), steps=None, endless=True)


def measured_stages(
    loop: TrainLoop, data: Any, feed: Feed, *, batch_size: Optional[int], repeats: int, slice_seconds: float
) -> List[Stage]:
    """The stages, each with all before it: those of a source, then the batches of the feed, then the devices."""
    source = as_source(data)
    datasets: Dict[str, tf.data.Dataset] = {}
    if source is not None:
        for name, stage in source.stages():
            datasets[_unused(name, datasets)] = stage.batches(batch_size=batch_size or 32, seed=loop.settings.seed)
    datasets[BATCH] = feed.dataset.prefetch(tf.data.AUTOTUNE)
    streams: Dict[str, Callable[[], Any]] = {name: functools.partial(iter, each) for name, each in datasets.items()}
    streams[TO_DEVICE] = functools.partial(loop.iterator, feed)
    rates = batches_per_second(streams, repeats=repeats, slice_seconds=slice_seconds)
    sizes = {name: _rows_and_bytes(dataset) for name, dataset in datasets.items()}
    sizes[TO_DEVICE] = sizes[BATCH]
    stages = []
    for name, values in rates.items():
        rows, size = sizes[name]
        stages.append(Stage(name, statistics.median(values) * rows, size / rows))
    return stages


def step_seconds(loop: TrainLoop, feed: Feed, *, seconds: float) -> Tuple[float, float]:
    """The median time of a training step that has its batch at hand, run for some time; and the batch's examples."""
    batch = next(iter(feed.dataset))
    rows = int(tf.shape(tf.nest.flatten(batch)[0])[0])
    clock = _Clock(seconds)
    loop.fit(tf.data.Dataset.from_tensors(batch).repeat(), steps=_WITHOUT_END, callbacks=[clock])
    return statistics.median(clock.steps), rows


def what_is_read(data: Any) -> str:
    """As `verdict` calls it."""
    source = as_source(data)
    if source is None:
        return verdict.DATASET
    first = source.stages()[0][1]
    if isinstance(first, ArraySource):
        return verdict.MEMORY
    return verdict.PACKED if isinstance(first, PackedSource) else verdict.RECORDS


def _unused(name: str, used: Any) -> str:
    """`name`, with a number behind it where a stage before has the same."""
    numbered = (f"{name} {number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each not in used)


def _rows_and_bytes(dataset: tf.data.Dataset) -> Tuple[float, float]:
    """The mean examples and bytes of its first batches."""
    rows, sizes = [], []
    for batch in dataset.take(_SAMPLED):
        leaves = tf.nest.flatten(batch)
        rows.append(int(tf.shape(leaves[0])[0]))
        sizes.append(sum(_bytes(leaf) for leaf in leaves))
    return float(np.mean(rows)), float(np.mean(sizes))


def _bytes(leaf: Any) -> int:
    if isinstance(leaf, tf.RaggedTensor):
        leaf = leaf.flat_values
    if leaf.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(leaf)))
    return int(tf.size(leaf)) * leaf.dtype.size


class _Clock(Callback):
    """Ends a run some time after its first call, which compiles, and keeps the seconds of its steps."""

    def __init__(self, seconds: float):
        super().__init__()
        self._seconds = seconds
        self._until: Optional[float] = None
        self.steps: List[float] = []

    def on_steps_end(self, trace: StepTrace) -> None:
        """Takes the steps of a call, without their wait for data."""
        end = float(trace.ended[-1])
        if self._until is None:
            self._until = end + self._seconds
            return
        self.steps += (trace.ended - trace.came).tolist()
        if end >= self._until:
            self.model.stop_training = True
