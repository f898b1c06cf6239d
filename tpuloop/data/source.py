"""What the loop asks of data whose stream can be entered anywhere."""

import abc
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import tensorflow as tf

from tpuloop.data.as_written import as_written
from tpuloop.data.shard import WHOLE, Shard


class Origin(NamedTuple):
    """Where the rows of a batch come from.

    Attributes:
      epochs: int64 of shape [rows].
      numbers: the place of each example in the stored order, int64 of shape [rows].
    """

    epochs: tf.Tensor
    numbers: tf.Tensor


class Source(abc.ABC):
    """Examples in an order that is a function of (seed, epoch), readable from any position.

    The position of a run is `step x batch size` and needs no saving. Batches are GLOBAL: all replicas of all hosts
    together take one. A host that reads a `Shard` gets its rows of each.

    A source tells of every example where it comes from, so that augmentation can be a function of (seed, epoch,
    example) and a fault can be named.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Examples in one epoch."""

    @property
    @abc.abstractmethod
    def element_spec(self) -> Any:
        """The structure of one example: nested `tf.TensorSpec`s without a batch dimension."""

    @abc.abstractmethod
    def numbered_batches(
        self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        """The endless stream of `(batch, Origin)` from example `position` of the run on.

        Every epoch holds every example once. Batches run across the edge of an epoch, so that all have one static
        shape and `position` is exact. With several hosts it must be a multiple of their number.
        """

    @abc.abstractmethod
    def numbered_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        """All examples once as `(batch, Origin)`, in their stored order and in epoch 0; the last batch may be short."""

    def batches(self, *, batch_size: int, seed: int, position: int = 0, shard: Shard = WHOLE) -> tf.data.Dataset:
        """`numbered_batches` without the origins."""
        return self.numbered_batches(batch_size=batch_size, seed=seed, position=position, shard=shard).map(_first)

    def one_pass(self, *, batch_size: int, shard: Shard = WHOLE) -> tf.data.Dataset:
        """`numbered_pass` without the origins."""
        return self.numbered_pass(batch_size=batch_size, shard=shard).map(_first)

    def steps_per_epoch(self, batch_size: int) -> int:
        """Batches that hold one epoch, the last perhaps running into the next epoch; Keras counts the same."""
        return -(-self.size // batch_size)

    def map_batches(self, function: Callable[[Any], Any], *, name: str = "parse") -> "Source":
        """A source whose batches are `function(batch)`; for what works on many examples at once, such as parsing.

        Args:
          function: traced once; takes and returns a batch, of the same rows in the same order.
          name: of the stage, as `tpuloop data bench` shows it.
        """
        from tpuloop.data.mapped import BatchMap

        return BatchMap(self, function, name=name)

    def map_seeded_batches(self, function: Callable[[Any, tf.Tensor], Any], *, name: str = "augment") -> "Source":
        """A source whose batches are `function(batch, seeds)`; for what is drawn for many examples at once.

        Args:
          function: traced once; takes a batch and a seed for each example, int32 of shape [rows, 2], that is a function
            of (seed, epoch, example); returns a batch of the same rows in the same order.
          name: of the stage, as `tpuloop data bench` shows it.
        """
        from tpuloop.data.mapped import SeededBatchMap

        return SeededBatchMap(self, function, name=name)

    def map_examples(self, function: Callable[[Any, tf.Tensor], Any], *, name: str = "augment") -> "Source":
        """A source whose examples are `function(example, seed)`; for augmentation, or decoding pictures.

        Args:
          function: traced once; takes an example and a seed that is a function of (seed, epoch, example), int32 of
            shape [2] as TensorFlow's stateless random operations take it; returns an example.
          name: of the stage, as `tpuloop data bench` shows it.
        """
        from tpuloop.data.mapped import ExampleMap

        return ExampleMap(self, function, name=name)

    def whereabouts(self, number: int) -> str:
        """Where the example of that number in the stored order is, for a message."""
        return f"example {number}"

    @property
    def remedy(self) -> str:
        """What to do with an example that cannot be used, for a message."""
        return "mend it or leave it out"

    def find_fault(self) -> Any:
        """The first `Fault` in what the source reads, looked for in its files; None where none is known."""
        return None

    def cached(self) -> "Source":
        """A source of the same examples that are read once, here, and then lie in memory.

        It is shuffled as arrays are, and so in another order. What is drawn by seeds (`map_examples`,
        `map_seeded_batches`) is drawn anew in every epoch, and a mixture keeps its weights.

        Raises:
          DataError: where they would not fit, with the sizes.
        """
        from tpuloop.data.cache import in_memory

        return in_memory(self)

    def stages(self) -> List[Tuple[str, "Source"]]:
        """The sources that this one is made of by name, the innermost first, itself last."""
        return [("read", self)]


@as_written
def _first(batch: Any, origin: Origin) -> Any:
    del origin
    return batch


def as_source(data: Any) -> Optional[Source]:
    """`data` as a source: a Source itself, or arrays (NumPy or tensors, nested); None for anything else."""
    from tpuloop.data.arrays import ArraySource, is_arrays

    if isinstance(data, Source):
        return data
    return ArraySource(data) if is_arrays(data) else None
