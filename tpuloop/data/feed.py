"""From data of any kind to the iterator that a loop reads."""

import contextlib
import dataclasses
import logging
from typing import Any, Callable, ContextManager, Dict, Optional, Tuple, Union

import tensorflow as tf

from tpuloop.counts import check_count
from tpuloop.data.as_written import as_written
from tpuloop.data.checks import DataError, check_batches, check_divides
from tpuloop.data.faults import naming_faults
from tpuloop.data.source import Source, as_source

logger = logging.getLogger("tpuloop")


# Takes a function that tells how many steps were done when an error came; needed for training data only.
_NamingFaults = Callable[..., ContextManager[None]]


def _unnamed(step: Optional[Callable[[], int]] = None) -> ContextManager[None]:
    """For data whose examples nobody can find again."""
    del step
    return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Feed:
    """Batches on their way to the replicas of one strategy.

    Attributes:
      dataset: of global batches.
      steps: how many there are; None where that shows only when they end, or where they never do.
      endless: whether there is always another one.
      steps_per_epoch: batches in an epoch, where the data itself knows.
      naming_faults: makes the context to read the batches in: an error that an example causes becomes one that names
        it, a DataError. For training data it takes a function that tells how many steps were done then.
    """

    dataset: tf.data.Dataset
    steps: Optional[int]
    endless: bool
    steps_per_epoch: Optional[int]
    naming_faults: _NamingFaults = _unnamed

    @property
    def may_end(self) -> bool:
        """Whether the data may end at a step nobody knows beforehand."""
        return self.steps is None and not self.endless

    @property
    def global_batch(self) -> Optional[int]:
        """The examples in a batch, where every batch has as many."""
        shape = tf.nest.flatten(self.dataset.element_spec)[0].shape
        return shape[0] if shape.rank else None

    def splits_on_host(self, strategy: tf.distribute.Strategy, *, shared_memory: bool) -> bool:
        """Whether batches go whole to the step, which slices them, and not through an iterator over the devices.

        So where the replicas share the host's memory, and a slice costs less than such an iterator; and where batches
        do not divide: TensorFlow's distributed dataset cuts the stream at every so many examples, and after a short
        batch would mix the examples of two.
        """
        replicas, size = strategy.num_replicas_in_sync, self.global_batch
        return replicas > 1 and (shared_memory or size is None or size % replicas != 0)

    def iterator(self, strategy: tf.distribute.Strategy, *, whole: bool) -> Any:
        """An iterator over the global batches: whole, or split over the replicas in order and on their devices."""
        options = tf.data.Options()
        # One host reads all of its data; sharding by file or element would drop some of it, and warns at length.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        dataset = self.dataset.with_options(options).prefetch(tf.data.AUTOTUNE)
        if whole or strategy.num_replicas_in_sync == 1:
            return iter(dataset)
        return iter(strategy.experimental_distribute_dataset(dataset))


@dataclasses.dataclass(frozen=True)
class FeedRules:
    """What the replicas at hand ask of data.

    Attributes:
      replicas: of all hosts together.
      static_shapes: as a TPU needs them.
      strings: whether the model takes strings.
    """

    replicas: int
    static_shapes: bool
    strings: bool


def train_feed(
    data: Any,
    rules: FeedRules,
    *,
    batch_size: Optional[int],
    seed: int,
    step: int,
    by_pass: bool,
    steps_per_epoch: Optional[int],
    class_weight: Optional[Dict[int, float]] = None,
) -> Feed:
    """The batches of a training run from `step` on.

    Args:
      data: a Source, arrays, a `tf.data.Dataset` of global batches, or a callable that returns one of these.
      batch_size: the global batch for sources and arrays, 32 if None; a dataset has its own.
      seed: of the order, where the data is a source.
      step: steps already done; a source is entered there, a dataset is read and skipped.
      by_pass: the run is counted in epochs of one pass each, so a dataset that ends starts again, as in Keras.
      steps_per_epoch: what the user asked for.
      class_weight: weight of each integer class, multiplied into the sample weights.

    Raises:
      DataError: for data that cannot be trained on as it is.
    """
    data = resolved(data)
    source = as_source(data)
    if source is not None:
        global_batch = _size_of_batches(batch_size)
        check_divides(global_batch, rules.replicas)
        dataset = source.batches(batch_size=global_batch, seed=seed, position=step * global_batch)
        check_batches(dataset.element_spec, static_shapes=rules.static_shapes, strings=rules.strings)
        return Feed(
            _class_weighted(dataset, class_weight),
            None,
            True,
            source.steps_per_epoch(global_batch),
            _naming_in_run(source, global_batch, seed),
        )

    _refuse_batch_size(batch_size)
    size = check_batches(data.element_spec, static_shapes=rules.static_shapes, strings=rules.strings)
    if size is not None and rules.static_shapes:
        check_divides(size, rules.replicas)
    length = _length(data)
    dataset = data
    # As in Keras: an epoch is one pass, and each pass starts the dataset anew. Where the length of a pass is not known,
    # the loop asks for a new iterator when the data ends.
    again = by_pass and length is not None and length >= 0 and steps_per_epoch in (None, length)
    if again:
        dataset = dataset.repeat()
    if step:
        logger.warning(
            "continuing at step %d of a tf.data.Dataset: its first %d batches are read again and passed over, "
            "in the order the dataset gives them now",
            step,
            step,
        )
        dataset = dataset.skip(step)
    known = length if length is not None and length >= 0 else None
    endless = again or length == tf.data.INFINITE_CARDINALITY
    return Feed(
        _class_weighted(dataset, class_weight),
        None if endless or known is None else max(0, known - step),
        endless,
        known,
    )


def eval_feed(
    data: Any, rules: FeedRules, *, batch_size: Optional[int], steps: Optional[int], pad: bool = True
) -> Feed:
    """The batches of one evaluation, as pairs `(batch, mask)`; `mask` is float32 of shape [batch], 0 for padding.

    Every example counts once: a batch is filled up to a multiple of the replicas, and where shapes must be static to
    the size of all batches, with copies of its last example, which the mask leaves out. No further than needed, since
    what a model adds for itself (`add_loss` of its data, `add_metric`) knows no mask.

    Args:
      data, batch_size: as in `train_feed`.
      steps: batches to take; None for all.
      pad: False leaves short batches short (and the mask all ones), for steps that know no mask.

    Raises:
      DataError: for data that cannot be used as it is, or that never ends while `steps` is None.
    """
    data = resolved(data)
    source = as_source(data)
    naming: _NamingFaults = _unnamed
    if source is not None:
        dataset = source.one_pass(batch_size=_size_of_batches(batch_size))
        naming = _naming_in_pass(source, _size_of_batches(batch_size))
    else:
        _refuse_batch_size(batch_size)
        dataset = data
    size = check_batches(dataset.element_spec, static_shapes=False, strings=rules.strings)
    length = _length(dataset)
    if length == tf.data.INFINITE_CARDINALITY and steps is None:
        raise DataError("the evaluation data never ends: give eval_steps, or a dataset without .repeat()")
    if steps is not None:
        dataset = dataset.take(steps)
        length = None if length is None else (steps if length < 0 else min(steps, length))
    is_tuple = isinstance(dataset.element_spec, tuple)

    def whole(batch: Tuple[Any, ...]) -> Any:  # `map` hands over a tuple's parts one by one.
        return batch if is_tuple else batch[0]

    if not pad:
        unpadded = as_written(lambda *batch: _unpadded(whole(batch)))
        return Feed(dataset.map(unpadded), length, False, length, naming)
    if size is None and rules.static_shapes:
        size = _size_of_batches(batch_size) if source is not None else _first_batch_size(dataset)
    dataset = dataset.map(as_written(lambda *batch: _padded(whole(batch), size, rules.replicas)))
    check_batches(dataset.element_spec, static_shapes=rules.static_shapes, strings=rules.strings)
    return Feed(dataset, length, False, length, naming)


def _naming_in_run(source: Source, batch_size: int, seed: int) -> _NamingFaults:
    def naming(step: Callable[[], int]) -> ContextManager[None]:
        def failed_batch(stage: Source) -> tf.data.Dataset:
            return stage.numbered_batches(batch_size=batch_size, seed=seed, position=step() * batch_size).take(1)

        return naming_faults(source, failed_batch, seed=seed)

    return naming


def _naming_in_pass(source: Source, batch_size: int) -> _NamingFaults:
    def naming(step: Optional[Callable[[], int]] = None) -> ContextManager[None]:
        del step  # The pass is read from its start.
        return naming_faults(source, lambda stage: stage.numbered_pass(batch_size=batch_size))

    return naming


def resolved(data: Any) -> Union[tf.data.Dataset, Source]:
    """What a run reads of `data`: arrays become a source, and a function is called.

    Raises:
      DataError: for anything else, and for a dataset without batches.
    """
    if callable(data) and not isinstance(data, (tf.data.Dataset, Source)):
        data = data()
    if isinstance(data, tuple):  # As in Keras, what is not there may be given as None.
        data = tuple(part for part in data if part is not None)
    if isinstance(data, tf.data.Dataset):
        if _length(data) == 0:
            raise DataError("the data is empty: the dataset holds 0 batches (does its file pattern match anything?)")
        return data
    source = as_source(data)
    if source is None:
        raise DataError(
            f"cannot use a {type(data).__name__} as data: give a tf.data.Dataset of global batches, NumPy arrays "
            "(not lists of numbers), a tpuloop source, or a function that returns one of these"
        )
    return source


def _length(dataset: tf.data.Dataset) -> Optional[int]:
    """The number of elements, `tf.data.INFINITE_CARDINALITY` for endless data, or None where it is not known."""
    length = int(dataset.cardinality())
    return None if length == tf.data.UNKNOWN_CARDINALITY else length


def _size_of_batches(batch_size: Optional[int]) -> int:
    if batch_size is None:
        return 32
    return check_count("batch_size", batch_size)


def _refuse_batch_size(batch_size: Optional[int]) -> None:
    if batch_size is not None:
        raise DataError(
            f"batch_size={batch_size} was given with a tf.data.Dataset, which holds batches already: leave it out"
        )


def _first_batch_size(dataset: tf.data.Dataset) -> int:
    """The size of the first batch, for data whose spec does not tell. Reads one batch."""
    for batch in dataset.take(1):
        return int(tf.shape(tf.nest.flatten(batch)[0])[0])
    raise DataError("the data is empty: it gave no batch")


def _padded(batch: Any, size: Optional[int], replicas: int) -> Any:
    """`batch` filled up to `size` examples, if that is given, and to a multiple of the replicas; and its mask."""
    count = tf.shape(tf.nest.flatten(batch)[0])[0]
    rows = -(-(count if size is None else size) // replicas) * replicas
    fits = []
    if size is not None:
        message = f"a batch has more examples than the first one: pad or batch the data to one size, {size}"
        fits = [tf.debugging.assert_less_equal(count, size, message)]
    with tf.control_dependencies(fits):
        indices = tf.minimum(tf.range(rows), count - 1)
    # Copies of a real example and not zeros: what a model makes of an all-zero example may not be a number.
    padded = tf.nest.map_structure(lambda leaf: tf.gather(leaf, indices), batch)
    return padded, tf.cast(tf.range(rows) < count, tf.float32)


def _unpadded(batch: Any) -> Any:
    return batch, tf.ones([tf.shape(tf.nest.flatten(batch)[0])[0]])


def _class_weighted(dataset: tf.data.Dataset, class_weight: Optional[Dict[int, float]]) -> tf.data.Dataset:
    if class_weight is None:
        return dataset
    classes = sorted(class_weight)
    if classes != list(range(len(classes))):
        raise DataError(f"class_weight must name the classes 0 to {len(classes) - 1} without a gap; it names {classes}")
    spec = dataset.element_spec
    _, label_spec, weight_spec = tf.keras.utils.unpack_x_y_sample_weight(spec if isinstance(spec, tuple) else (spec,))
    if not isinstance(label_spec, tf.TensorSpec) or label_spec.shape.rank > 2:
        raise DataError("class_weight needs one label for each example: a class, or a row of one-hot values")
    if isinstance(weight_spec, (tuple, list, dict)):
        raise DataError("class_weight needs sample weights that are one tensor")
    table = tf.constant([class_weight[number] for number in classes], tf.float32)
    one_hot = label_spec.shape.rank == 2 and label_spec.shape[-1] not in (None, 1)

    @as_written
    def weighted(*batch: Any) -> Any:
        x, y, sample_weight = tf.keras.utils.unpack_x_y_sample_weight(batch)
        label = tf.argmax(y, axis=-1) if one_hot else tf.reshape(y, [-1])
        weight = tf.gather(table, tf.cast(label, tf.int64))
        if sample_weight is not None:
            sample_weight = tf.cast(sample_weight, tf.float32)
            of_row = tf.concat([tf.shape(weight), tf.ones([tf.rank(sample_weight) - 1], tf.int32)], axis=0)
            weight = tf.reshape(weight, of_row) * sample_weight
        return x, y, weight

    return dataset.map(weighted)
