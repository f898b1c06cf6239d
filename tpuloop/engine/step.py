"""One step over all replicas, and how its outputs become one small vector of sums."""

import contextlib
import contextvars
import functools
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import tensorflow as tf

from tpuloop.engine.autograph import converting_for_keras
from tpuloop.engine.mean import Loss, Mean, SumOfMeans, as_loss, parts_of
from tpuloop.engine.randomness import StepSeed, step_seed
from tpuloop.errors import UsageError

Outputs = Mapping[str, Union[Loss, tf.Tensor]]

_PARTS: "contextvars.ContextVar[int]" = contextvars.ContextVar("batch_parts", default=1)
_MASK: "contextvars.ContextVar[Optional[tf.Tensor]]" = contextvars.ContextVar("example_mask", default=None)


def example_mask() -> Optional[tf.Tensor]:
    """Which rows of the replica's batch are examples: float32 of shape [batch], 0 for padding. None while training."""
    return _MASK.get()


def batch_parts() -> int:
    """How many parts of its batch a replica goes through one by one, each as large as the next."""
    return _PARTS.get()


class GlobalStep:
    """Runs a step on every replica and sums what it returns. Cross-replica context.

    The outputs of all replicas are brought together as one vector (all totals, then all weights), so that a step costs
    one small reduction however much it reports.

    Args:
      strategy: the strategy whose replicas run.
      replica_step: called with the replica's batch, in replica context; returns named Means, or tensors, which count
        like `Mean(tensor)`.
      seed: of the run; random layers depend on (seed, step, replica, layer) and nothing else.
      masked: the data gives pairs `(batch, mask)`; rows with mask 0 are left out of every Mean.
      split: batches come whole, and are split over the replicas here.
      jit_compile: compile the replica's step by XLA while it is traced.
      after: called when the replica's step is over, in replica context, with the steps done.
    """

    def __init__(
        self,
        *,
        strategy: tf.distribute.Strategy,
        replica_step: Callable[[Any], Outputs],
        seed: int,
        masked: bool = False,
        split: bool = False,
        jit_compile: bool = False,
        after: Optional[Callable[[tf.Tensor], None]] = None,
    ):
        self._strategy = strategy
        self._on_each = compiled_by_xla(self._on_replica) if jit_compile else self._on_replica
        self._replica_step = replica_step
        self._seed = seed
        self._masked = masked
        self._split = split
        self._after = after
        # Known once the step was traced: the names of what is summed, in the order of the sums; the names of outputs
        # that are sums of such; how many belong to the first output.
        self.names: List[str] = []
        self.added: Dict[str, Tuple[str, ...]] = {}
        self.watched = 1

    def __call__(self, step: tf.Tensor, batch: Any) -> tf.Tensor:
        """Step number `step` (int64 scalar, 0 for the first). Returns float32 sums of shape [2 x names]."""
        if self._split:
            batch = split_over_replicas(batch, self._strategy)
        sums = self._strategy.run(self._on_each, args=(step, batch))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None)

    def _on_replica(self, step: tf.Tensor, batch: Any) -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        batch, mask = batch if self._masked else (batch, None)
        with step_seed(StepSeed.of(self._seed, step, replica)), _example_mask(mask), converting_for_keras():
            means = as_means(self._replica_step(batch))
        if self._after is not None:
            self._after(step + 1)
        if mask is not None:
            means = {name: mean.masked(mask) for name, mean in means.items()}
        self.watched = len(parts_of(next(iter(means.values()))))
        self.added = {name: tuple(mean.parts) for name, mean in means.items() if isinstance(mean, SumOfMeans)}
        summed = _parts_by_name(means)
        self.names = list(summed)
        pairs = [mean.sums() for mean in summed.values()]
        return tf.cast(tf.stack([total for total, _ in pairs] + [weight for _, weight in pairs]), tf.float32)


def compiled_by_xla(on_replica: Callable[..., Any]) -> Callable[..., Any]:
    """One XLA program of a replica's step, as Keras makes it for `compile(jit_compile=True)`."""
    return tf.function(functools.partial(on_replica), jit_compile=True, autograph=False)


def split_over_replicas(batch: Any, strategy: tf.distribute.Strategy) -> Any:
    """A global batch as each replica's part, in order; the last parts are short or empty where it does not divide.

    For replicas that share the host's memory: a slice there costs less than TensorFlow's iterator over several devices.
    """
    size = tf.nest.flatten(batch)[0].shape[0]
    if size is None or size % strategy.num_replicas_in_sync:
        # Parts of static but different shapes would each be taken for the shape of all.
        batch = tf.nest.map_structure(_any_rows, batch)
        size = tf.shape(tf.nest.flatten(batch)[0])[0]
    rows = -(-size // strategy.num_replicas_in_sync)

    def part(context: tf.distribute.experimental.ValueContext) -> Any:
        start = context.replica_id_in_sync_group * rows
        return tf.nest.map_structure(lambda leaf: leaf[start : start + rows], batch)

    return strategy.experimental_distribute_values_from_function(part)


def _any_rows(leaf: tf.Tensor) -> tf.Tensor:
    """The same tensor with an unknown first dimension, while a step is traced; eager tensors cannot hide theirs."""
    if tf.executing_eagerly():
        return leaf
    return tf.compat.v1.placeholder_with_default(leaf, [None, *leaf.shape[1:]])


def _parts_by_name(outputs: Mapping[str, Loss]) -> Dict[str, Mean]:
    """Each Mean by its name, those that make up a sum in the place of the sum.

    Raises:
      ValueError: for two of one name.
    """
    parts: Dict[str, Mean] = {}
    for name, output in outputs.items():
        for part, mean in output.parts.items() if isinstance(output, SumOfMeans) else ((name, output),):
            if part in parts or mean is not output and part in outputs:
                raise UsageError(f"two outputs of a step are called {part!r}: rename one of them")
            parts[part] = mean
    return parts


def as_means(outputs: Any) -> Dict[str, Loss]:
    """The outputs of a step as Means and sums of Means.

    Raises:
      TypeError: where a step returned something other than named values.
    """
    if not isinstance(outputs, Mapping) or not outputs:
        raise TypeError(
            f"a step must return a non-empty dict of named values, such as {{'loss': loss}}; it returned {outputs!r}"
        )
    return {name: as_loss(value) for name, value in outputs.items()}


@contextlib.contextmanager
def _example_mask(mask: Optional[tf.Tensor]) -> Iterator[None]:
    token = _MASK.set(mask)
    try:
        yield
    finally:
        _MASK.reset(token)


@contextlib.contextmanager
def in_parts(parts: int) -> Iterator[None]:
    """Inside, a forward pass sees one of so many parts of a batch."""
    token = _PARTS.set(parts)
    try:
        yield
    finally:
        _PARTS.reset(token)
